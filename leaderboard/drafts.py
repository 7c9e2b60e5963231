"""Suites from draft to frozen: choose cases by filters, look, freeze, and start the next version."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal

from django.db import transaction

from evaluation import pictures, suite_builder
from evaluation.images import Picture
from evaluation.suites import Suite as CoreSuite
from evaluation.suites import SuiteError
from leaderboard.benchmark import store_suite
from leaderboard.models import EditingModel, EditPair, Run, SourceImage, Suite
from leaderboard.models.suites import Curation

SECONDS_PER_EDIT = 10.0


@dataclass(frozen=True)
class Estimate:
    """What one run of a suite would take on one model."""

    editing_model: EditingModel
    edits: int
    usd: Decimal | None
    hours: float


@dataclass(frozen=True)
class Preview:
    """What a draft would become if it were frozen now."""

    suite: CoreSuite
    prepared: dict[str, Picture]

    @property
    def strata(self) -> list[tuple[str, str, int]]:
        """(picture kind, category, number of cases), in order."""
        balance = suite_builder.balance(self.suite)
        return [(kind, category, count) for (kind, category), count in sorted(balance.items())]

    def estimates(self) -> list[Estimate]:
        """Calls, money and time for every model on the site that is not a yardstick."""
        models = EditingModel.objects.filter(is_reference=False)
        return [estimate(model, self.suite.edits) for model in models]


def estimate(model: EditingModel, edits: int) -> Estimate:
    """Edits, price and hours; the pace is that of the model's last runs where there are any."""
    seconds = SECONDS_PER_EDIT
    runs = Run.objects.filter(editing_model=model.pk, edits_done__gt=0)
    last = runs.order_by("-created_at").first() if model.pk else None
    if last and last.seconds_per_edit:
        seconds = last.seconds_per_edit
    usd = None if model.price_per_edit is None else model.price_per_edit * edits
    return Estimate(model, edits, usd, edits * seconds / model.max_in_flight / 3600)


def preview(suite: Suite) -> Preview:
    """The suite this draft describes; SuiteError says why there is none."""

    def chosen(name: str) -> tuple[str, ...]:
        return tuple(suite.filters.get(name) or ())

    draft = suite_builder.Draft(
        slug=suite.slug,
        title=suite.title,
        trips=suite.trips,
        size=suite.size,
        version=suite.version,
        repeats=suite.repeats,
        description=suite.description,
        cases=int(suite.filters.get("cases") or 24),
        seed=int(suite.filters.get("seed") or 0),
        kinds=chosen("kinds"),
        made=chosen("made"),
        categories=chosen("categories"),
        picture_slugs=chosen("picture_slugs"),
        pair_slugs=chosen("pair_slugs"),
    )
    excluded = set(suite.filters.get("without") or ())
    prepared: dict[str, Picture] = {}
    candidates = []
    for source in SourceImage.objects.filter(status=Curation.ACTIVE).select_related("stored"):
        if draft.kinds and source.kind not in draft.kinds:
            continue
        candidate, picture = _candidate(source, suite.size)
        if draft.takes_picture(candidate.picture):
            candidates.append(candidate)
            prepared[source.slug] = picture
    pairs = [p.as_core() for p in EditPair.objects.filter(status=Curation.ACTIVE)]
    built = suite_builder.build(draft, candidates, pairs)
    if excluded:
        built = _without(built, excluded)
    used = {picture.slug for picture in built.pictures}
    return Preview(built, {slug: picture for slug, picture in prepared.items() if slug in used})


@transaction.atomic
def freeze(suite: Suite) -> Suite:
    """Make the draft immutable: its content is hashed, its pictures and cases are stored."""
    locked = Suite.objects.select_for_update().get(pk=suite.pk)
    if locked.is_frozen:
        raise SuiteError(f"{locked} is frozen already")
    ready = preview(locked)
    return store_suite(ready.suite, ready.prepared, row=locked)


def next_version(suite: Suite, without: Collection[str] = (), changes: str = "") -> Suite:
    """A new draft after this suite's newest version, with the same filters."""
    newest = Suite.objects.filter(slug=suite.slug).order_by("-version").first() or suite
    filters = dict(suite.filters)
    if suite.is_frozen and not filters:
        filters = {
            "cases": suite.cases.count(),
            "picture_slugs": [p.slug for p in suite.core.pictures],
            "pair_slugs": [p.slug for p in suite.core.pairs],
        }
    if without:
        filters["without"] = sorted({*filters.get("without", ()), *without})
    return Suite.objects.create(
        slug=suite.slug,
        version=newest.version + 1,
        title=suite.title,
        description=suite.description,
        trips=suite.trips,
        size=suite.size,
        repeats=suite.repeats,
        filters=filters,
        importance=suite.importance,
        changes=changes,
    )


def _candidate(source: SourceImage, size: int) -> tuple[suite_builder.Candidate, Picture]:
    image = pictures.prepare(source.stored.read().image, size)
    return suite_builder.prepared(source, image), Picture.from_image(image)


def _without(suite: CoreSuite, excluded: set[str]) -> CoreSuite:
    """The suite without the cases that diagnostics put in quarantine."""
    cases = tuple(case for case in suite.cases if case.slug not in excluded)
    if not cases:
        raise SuiteError("every case of this draft is in quarantine")
    return replace(
        suite,
        cases=cases,
        pictures=tuple(p for p in suite.pictures if p.slug in {c.picture for c in cases}),
        pairs=tuple(p for p in suite.pairs if p.slug in {c.pair for c in cases}),
    )
