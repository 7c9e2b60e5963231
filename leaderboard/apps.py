from django.apps import AppConfig
from django.db.models.signals import post_migrate


class LeaderboardConfig(AppConfig):
    name = "leaderboard"
    verbose_name = "ConvergeBench"

    def ready(self) -> None:
        from leaderboard.roles import sync

        post_migrate.connect(sync, sender=self, dispatch_uid="leaderboard.roles")
