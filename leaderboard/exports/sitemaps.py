"""Site maps of the permanent pages, without their sorted and filtered views."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from django.contrib.sitemaps import Sitemap as BaseSitemap
from django.db.models import QuerySet
from django.urls import reverse

from leaderboard.models import Case, EditingModel, Experiment, Run, Suite

if TYPE_CHECKING:
    Sitemap: TypeAlias = BaseSitemap[Any]
else:
    Sitemap = BaseSitemap


class Pages(Sitemap):
    """Pages that exist once."""

    def items(self) -> list[str]:
        return [
            "board",
            "compare",
            "categories",
            "value",
            "gallery",
            "experiments",
            "no_reference",
            "news",
            "tour",
            "robustness",
            "vote",
            "agreement",
            "suites",
            "methodology",
            "about",
            "changelog",
        ]

    def location(self, item: str) -> str:
        return reverse(item)


class Models(Sitemap):
    """Published models with a public run."""

    def items(self) -> QuerySet[EditingModel]:
        return EditingModel.objects.filter(
            pk__in=Run.objects.on_the_board().values("editing_model")
        ).order_by("slug")

    def lastmod(self, item: EditingModel) -> datetime.datetime:
        return item.updated_at


class Suites(Sitemap):
    """Frozen suites."""

    def items(self) -> QuerySet[Suite]:
        return Suite.objects.frozen().defer("definition").order_by("slug", "version")

    def lastmod(self, item: Suite) -> datetime.datetime:
        return item.updated_at


class Experiments(Sitemap):
    """Public experiments."""

    def items(self) -> QuerySet[Experiment]:
        return Experiment.objects.public().order_by("pk")

    def lastmod(self, item: Experiment) -> datetime.datetime:
        return item.updated_at


class Cases(Sitemap):
    """Cases of suites with a run on the board."""

    def items(self) -> QuerySet[Case]:
        played = Run.objects.on_the_board().values("suite")
        return Case.objects.filter(suite__in=played).only("pk").order_by("pk")


SITEMAPS: dict[str, type[Sitemap] | Sitemap] = {
    "pages": Pages,
    "models": Models,
    "suites": Suites,
    "experiments": Experiments,
    "cases": Cases,
}
