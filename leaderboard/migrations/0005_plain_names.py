from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("leaderboard", "0004_published_figure_updated_at")]

    operations = [
        migrations.RenameField("submission", "told_state", "notified_state"),
        migrations.RemoveConstraint("triedpicture", "tried_picture"),
        migrations.RenameModel("TriedChain", "UploadedChain"),
        migrations.RenameModel("TriedPicture", "UploadedPicture"),
        migrations.AddConstraint(
            "uploadedpicture",
            models.UniqueConstraint(fields=("chain", "number", "forward"), name="uploaded_picture"),
        ),
    ]
