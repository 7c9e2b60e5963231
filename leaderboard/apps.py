"""The Django app and its user groups: curators, operators and owners."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.apps import apps as django_apps
from django.db.models.signals import post_migrate

#: Allowed actions by model. Owners have the permissions of curators and operators.
CURATOR = {
    "sourceimage": ("view", "add", "change", "delete"),
    "editpair": ("view", "add", "change", "delete"),
    "suite": ("view", "add", "change", "delete"),
    "suiteimage": ("view",),
    "case": ("view",),
    "editingmodel": ("view",),
    "run": ("view",),
    "publishedfigure": ("view", "add", "change", "delete"),
}
OPERATOR = {
    "editingmodel": ("view", "add", "change"),
    "submission": ("view", "change"),
    "contributedrun": ("view", "change"),
    "apitoken": ("view", "add", "change"),
    "experiment": ("view", "add", "change", "delete"),
    "experimentarm": ("view", "add", "change", "delete"),
    "run": ("view", "add", "change"),
    "chain": ("view",),
    "call": ("view",),
    "securityevent": ("view",),
    "vote": ("view",),
    "voter": ("view",),
    "suite": ("view",),
    "sourceimage": ("view",),
    "editpair": ("view",),
}
ROLES: dict[str, tuple[dict[str, tuple[str, ...]], ...]] = {
    "curator": (CURATOR,),
    "operator": (OPERATOR,),
    "owner": (CURATOR, OPERATOR, {"editingmodel": ("delete",), "submission": ("delete",)}),
}


class LeaderboardConfig(AppConfig):
    name = "leaderboard"
    verbose_name = "ConvergeBench"

    def ready(self) -> None:
        post_migrate.connect(sync_groups, sender=self, dispatch_uid="leaderboard.roles")


def sync_groups(sender: AppConfig, **_: Any) -> None:
    """After every migration, create the groups and set their permissions to those in ROLES."""
    from django.contrib.auth.management import create_permissions

    # Django creates permissions on the same signal, but perhaps after this function.
    create_permissions(sender, verbosity=0)
    group_model = django_apps.get_model("auth", "Group")
    permission_model = django_apps.get_model("auth", "Permission")
    for name, permissions in ROLES.items():
        codes = {
            f"{action}_{model}"
            for models in permissions
            for model, actions in models.items()
            for action in actions
        }
        group, _made = group_model.objects.get_or_create(name=name)
        group.permissions.set(
            permission_model.objects.filter(
                content_type__app_label="leaderboard", codename__in=codes
            )
        )
