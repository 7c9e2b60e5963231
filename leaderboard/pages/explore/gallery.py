"""Strips of all models to look through: each model's best or worst cases first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.db.models import F, OuterRef, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber

from evaluation.analysis.events import CAUSES
from evaluation.analysis.failure_labels import LABELS, LEVELS
from evaluation.content.suites import find_suite
from leaderboard import formatting
from leaderboard.models import Chain, EditingModel, Run, StoredImage, Suite, Trip
from leaderboard.models.suites import Category
from leaderboard.pages import strips

#: Strips on one page.
SHOWN = 24
PARAMETERS = ("suite", "category", "cause", "label", "model", "order", "page")
#: Instead of a model's name: those that are only a scale.
YARDSTICKS = "yardsticks"
#: Further than this nobody looks.
LAST_PAGE = 500


class GalleryForm(forms.Form):
    """What to look at; choices depend on what is on the board."""

    suite = forms.ChoiceField(required=False)
    model = forms.ChoiceField(required=False)
    category = forms.ChoiceField(
        required=False, choices=[("", "Every category"), *Category.choices]
    )
    cause = forms.ChoiceField(
        required=False,
        label="Ended because",
        choices=[
            ("", "However it ended"),
            *((name, words) for name, words in CAUSES.items()),
            ("censored", "usable to the end"),
        ],
    )
    label = forms.ChoiceField(
        required=False,
        label="Looks like",
        choices=[("", "Whatever it looks like"), *LABELS.items()],
    )
    order = forms.ChoiceField(
        required=False, choices=[("worst", "Worst first"), ("best", "Best first")]
    )

    def offer(self, suites: Sequence[Suite], models: Sequence[EditingModel]) -> None:
        """Fill in what can be chosen."""
        choices = {
            "suite": [(suite.key, str(suite)) for suite in suites],
            "model": [
                ("", "Every model"),
                *((m.slug, m.name) for m in models if not m.is_reference),
                *([(YARDSTICKS, "The yardsticks")] if any(m.is_reference for m in models) else []),
                *((m.slug, m.name) for m in models if m.is_reference),
            ],
        }
        for name, offered in choices.items():
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)  # noqa: S101
            field.choices = offered


@dataclass(frozen=True)
class Strip:
    """One chain: its source, its first edit and a few returns, each with what is kept."""

    chain: Chain
    edited: StoredImage | None
    cells: Sequence[tuple[int, StoredImage | None, float | None]]
    verdict: str

    @property
    def source(self) -> StoredImage | None:
        return self.chain.case.picture.stored


def models_of(suite: Suite) -> list[EditingModel]:
    """The models whose pictures of this suite anybody may see, by name."""
    runs = Run.objects.on_the_board().filter(suite=suite)
    models = EditingModel.objects.filter(pk__in=runs.values("editing_model"))
    return list(models.defer("options", "api_key").order_by("name"))


def chosen_suite(name: str, offered: Sequence[Suite]) -> Suite | None:
    return find_suite(name, offered) if name else next(iter(offered), None)


def runs(suite: Suite, models: Sequence[EditingModel], model: str) -> QuerySet[Run]:
    """The runs to show chains of; of yardsticks only where they are asked for, or alone."""
    found = Run.objects.on_the_board().filter(suite=suite)
    if model == YARDSTICKS:
        return found.filter(editing_model__is_reference=True)
    if model:
        return found.filter(editing_model__slug=model)
    if any(not one.is_reference for one in models):
        return found.filter(editing_model__is_reference=False)
    return found


def chains(*, category: str, cause: str, label: str = "") -> QuerySet[Chain]:
    """The scored chains that fit, of whatever run."""
    found = Chain.objects.filter(repeat=0, usable_trips__isnull=False)
    if category:
        found = found.filter(case__category=category)
    if label:
        found = found.labelled(label)
    return found.filter(cause=cause) if cause else found


def page(
    of: QuerySet[Run], fitting: QuerySet[Chain], models: int, best: bool, number: int
) -> tuple[list[Chain], bool]:
    """The chains of this page, and whether there are more; every model's first comes first.

    Of so many models at most: where there are enough of them, the page has only such first
    chains, each found by the index, and no other is looked at.
    """
    sign = "-" if best else ""
    order = (f"{sign}usable_trips", f"{sign}auc", "pk")
    start = SHOWN * (number - 1)
    keys: list[int] = []
    if models > start + SHOWN:
        own = fitting.filter(run=OuterRef("pk")).order_by(*order).values("pk")[:1]
        firsts = Chain.objects.filter(pk__in=of.values_list(Subquery(own))).order_by(*order)
        keys = list(firsts.values_list("pk", flat=True)[start : start + SHOWN + 1])
    if len(keys) <= SHOWN:
        place = Window(RowNumber(), partition_by=F("run"), order_by=order)
        ordered = fitting.filter(run__in=of).annotate(place=place).order_by("place", *order)
        keys = list(ordered.values_list("pk", flat=True)[start : start + SHOWN + 1])
    rows = Chain.objects.select_related("case__picture__stored", "run__editing_model", "run__suite")
    rows = rows.defer(
        *("run__provenance", "run__suite__definition"),
        *("run__editing_model__options", "run__editing_model__api_key"),
    )
    known = rows.in_bulk(keys[:SHOWN])
    return [known[key] for key in keys[:SHOWN] if key in known], len(keys) > SHOWN


def strip_rows(shown: Sequence[Chain], trips: int) -> list[Strip]:
    """These chains with their pictures; one query."""
    numbers = strips.short_numbers(trips)
    by_chain: dict[int, dict[int, Trip]] = {chain.pk: {} for chain in shown}
    wanted = Trip.objects.filter(chain__in=shown, number__in=numbers)
    heavy = ("loss_map", "evidence", "change_measure", "damage")
    for trip in wanted.select_related("edited", "restored").defer(*heavy):
        by_chain[trip.chain_id][trip.number] = trip
    found = []
    for chain in shown:
        metric = chain.headline
        own = by_chain[chain.pk]
        cells = [
            (
                number,
                own[number].restored if number in own else None,
                chain.retention_after(metric, number),
            )
            for number in numbers
            if number in own
        ]
        first = own.get(1)
        edited = first.edited if first else None
        found.append(Strip(chain, edited, cells, strips.verdict(chain, metric, trips)))
    return found


def heading(model: str, category: str, cause: str, best: bool, label: str = "") -> str:
    """What is looked at, in words."""
    what = "best" if best else "worst"
    of = f" of {model}" if model else " of every model"
    edits = f", {formatting.edits(category).lower()}" if category else ""
    because = {"censored": ", usable to the end"}.get(cause) or (
        f", where {CAUSES[cause]}" if cause else ""
    )
    looks = f", with damage to {LABELS[label]}" if label in LEVELS else ""
    looks = looks or (f", with {LABELS[label]}" if label else "")
    return f"The {what} cases{of}{edits}{because}{looks}"
