from django.db import migrations, models

FIELD = models.BooleanField(
    default=False,
    help_text="Results of others, shown with their source, never mixed into our ranks.",
)


class Migration(migrations.Migration):
    dependencies = [("leaderboard", "0005_plain_names")]

    operations = [
        migrations.RenameField("suite", "elsewhere", "published_elsewhere"),
        migrations.RenameField("historicalsuite", "elsewhere", "published_elsewhere"),
        migrations.AlterField("suite", "published_elsewhere", FIELD),
        migrations.AlterField("historicalsuite", "published_elsewhere", FIELD),
    ]
