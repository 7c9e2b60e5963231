"""Suites from draft to frozen: select cases, preview, freeze, diagnose, draft the next version."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from django.core.cache import cache
from django.db import transaction
from PIL import Image
from pydantic import TypeAdapter

from evaluation.analysis.events import ChainResult
from evaluation.analysis.item_diagnostics import CaseDiagnosis, diagnose
from evaluation.content import sources, suite_builder
from evaluation.content.annotations import Annotations
from evaluation.content.suites import Case as CoreCase
from evaluation.content.suites import EditPair as CorePair
from evaluation.content.suites import Suite as CoreSuite
from evaluation.content.suites import SuiteError
from evaluation.editors import Editor, load_editor
from evaluation.editors.base import EditContext
from evaluation.errors import EditorError
from evaluation.estimate import Estimate
from evaluation.images import EncodedImage
from evaluation.measuring.change_seen import change_seen
from evaluation.metrics import METRICS, in_order, scored_metrics
from leaderboard.content.loading import store_suite
from leaderboard.models import Chain, EditingModel, EditPair, SourceImage, Suite
from leaderboard.models.runs import RunState
from leaderboard.models.suites import Curation
from leaderboard.standings.stored import chain_result

#: The editor that tries out edits: a program, not a model. It saves JPEGs, as many models do.
CHECKING_EDITOR = "jpeg"
#: Long, because cached results never change and a curator may work on a draft for days.
CACHE_SECONDS = 7 * 24 * 3600
FACTS = TypeAdapter(suite_builder.Facts)


DRAFT_FIELDS = tuple(field.name for field in fields(suite_builder.Draft))
#: The fields of a draft that select cases. Its other fields are columns of the suite's row.
FILTERS = frozenset(DRAFT_FIELDS) - {field.name for field in Suite._meta.concrete_fields}
DEFAULT_CASES = 24


class NotReady(Exception):
    """The preview takes longer than one request; finished work is cached."""

    def __init__(self, what: str, done: int, total: int) -> None:
        super().__init__(f"{what}: {done} of {total}")


@dataclass(frozen=True)
class Preview:
    """The suite that a draft would become if it were frozen now."""

    suite: CoreSuite
    #: True if the curator allows a narrow suite: few images, pairs or categories.
    narrow: bool = False

    @cached_property
    def refusals(self) -> list[str]:
        """Reasons why the suite may not be frozen; empty if it may."""
        return suite_builder.refusals(self.suite, self.narrow)

    @property
    def warnings(self) -> list[str]:
        """Warnings about one-sided content."""
        return suite_builder.warnings(self.suite)

    @property
    def strata(self) -> list[tuple[str, str, int]]:
        """The number of cases by image kind and category, in order."""
        balance = suite_builder.balance(self.suite)
        return [(kind, category, count) for (kind, category), count in sorted(balance.items())]

    def estimates(self) -> list[tuple[EditingModel, Estimate]]:
        """Estimate calls, money and time for every model except reference editors."""
        models = EditingModel.objects.filter(is_reference=False)
        return [(model, model.estimate_run(self.suite)) for model in models]


def preview(suite: Suite, until: float = math.inf) -> Preview:
    """Return the suite that this draft describes. Raises SuiteError if it cannot be built.

    Raises NotReady if the suite is not built by `until`, a value of time.monotonic().
    """
    chosen: dict[str, Any] = {"cases": DEFAULT_CASES} | {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in suite.filters.items()
        if name in FILTERS and value
    }
    draft = suite_builder.Draft(**_draft_fields(suite), **chosen)
    excluded = set(suite.filters.get("without") or ())
    active = SourceImage.objects.filter(status=Curation.ACTIVE).select_related("stored")
    # Select images before opening their files.
    selected = [source for source in active if draft.accepts_image(source)]  # type: ignore[arg-type]
    pairs = [p.as_core() for p in EditPair.objects.filter(status=Curation.ACTIVE)]
    facts = facts_of(selected, suite.size, until)
    candidates = [
        suite_builder.from_facts(
            source, facts[source.slug], prepared_annotations(source, suite.size)
        )
        for source in selected
    ]
    built = suite_builder.build(draft, candidates, pairs)
    return Preview(_without(built, excluded) if excluded else built, draft.narrow)


@transaction.atomic
def freeze(suite: Suite) -> Suite:
    """Make the draft immutable: hash its content, store its images and cases."""
    locked = Suite.objects.select_for_update().get(pk=suite.pk)
    if locked.is_frozen:
        raise SuiteError(f"{locked} is already frozen")
    checked = preview(locked)
    if checked.refusals:
        raise SuiteError("; ".join(checked.refusals[:5]))
    core = checked.suite
    used = SourceImage.objects.filter(slug__in=[image.slug for image in core.images])
    prepared = {
        source.slug: EncodedImage.from_image(_working_image(source, locked.size))
        for source in used.select_related("stored")
    }
    return store_suite(core, prepared, row=locked)


def next_version(suite: Suite, without: Collection[str] = (), changes: str = "") -> Suite:
    """Create a draft of the suite's next version, with the filters of this version.

    Cases in `without` are excluded.
    """
    newest = Suite.objects.filter(slug=suite.slug).order_by("-version").first() or suite
    filters = dict(suite.filters)
    if suite.is_frozen and not filters:
        filters = {
            "cases": suite.cases.count(),
            "image_slugs": [p.slug for p in suite.core.images],
            "pair_slugs": [p.slug for p in suite.core.pairs],
        }
    if without:
        filters["without"] = sorted({*filters.get("without", ()), *without})
    fields_of_draft = _draft_fields(suite) | {"version": newest.version + 1}
    return Suite.objects.create(**fields_of_draft, filters=filters, changes=changes)


def unseen_cases(suite: CoreSuite, until: float = math.inf) -> list[CoreCase]:
    """Return the cases whose edit is too small to be seen at the suite's size.

    A reference editor makes each edit; results are cached. Raises NotReady if that is not done by
    `until`.
    """
    editor, unseen = load_editor(CHECKING_EDITOR), []
    used = SourceImage.objects.filter(slug__in=suite.image_by_slug).select_related("stored")
    by_slug = {source.slug: source for source in used}
    for done, case in enumerate(suite.cases):
        source, pair = by_slug[case.image], suite.pair_by_slug[case.pair]
        annotations = prepared_annotations(source, suite.size)
        about = repr((source.stored_id, suite.size, pair, annotations))
        key = f"seen:{sha256(about.encode()).hexdigest()}"
        seen = cache.get(key)
        if seen is None:
            if time.monotonic() > until:
                raise NotReady("Checking whether edits are seen", done, len(suite.cases))
            seen = _is_seen(
                editor,
                EncodedImage.from_image(_working_image(source, suite.size)),
                pair,
                annotations,
            )
            cache.set(key, seen, CACHE_SECONDS)
        if not seen:
            unseen.append(case)
    return unseen


def _is_seen(
    editor: Editor, source: EncodedImage, pair: CorePair, annotations: Annotations
) -> bool:
    """Return False if the edit is too small to be seen. Global edits always count as seen."""
    try:
        edited = editor.send(source, pair.forward, 1, EditContext(annotations=annotations)).image
    except EditorError:
        return True
    return change_seen(source.decoded, edited.decoded, pair).seen is not False


def facts_of(
    images: Sequence[SourceImage], size: int, until: float = math.inf
) -> dict[str, suite_builder.Facts]:
    """Return facts about the images' pixels at a size, by slug.

    Facts are cached, because preparing a hundred images takes many seconds and a curator previews
    a draft repeatedly. Raises NotReady if that is not done by `until`.
    """
    keys = {source.slug: f"prepared:{source.stored_id}:{size}" for source in images}
    cached = cache.get_many(keys.values())
    by_slug: dict[str, suite_builder.Facts] = {}
    for source in images:
        key = keys[source.slug]
        if key not in cached and time.monotonic() > until:
            raise NotReady("Reading images", len(by_slug), len(keys))
        if key in cached:
            by_slug[source.slug] = FACTS.validate_json(cached[key])
            continue
        facts = by_slug[source.slug] = suite_builder.facts(_working_image(source, size))
        # Cached as JSON, because a shared cache stores no Python objects.
        cache.set(key, FACTS.dump_json(facts), CACHE_SECONDS)
    return by_slug


def prepared_annotations(source: SourceImage, size: int) -> Annotations:
    """Return the image's annotations at this working size."""
    original = (source.stored.width, source.stored.height)
    return sources.prepare_annotations(source.places, original, size)


def _draft_fields(suite: Suite) -> dict[str, Any]:
    """Return the fields of a draft that are fields of the suite's row."""
    return {name: getattr(suite, name) for name in DRAFT_FIELDS if name not in FILTERS}


def _working_image(source: SourceImage, size: int) -> Image.Image:
    return sources.prepare(source.stored.read().decoded, size)


def _without(suite: CoreSuite, excluded: set[str]) -> CoreSuite:
    """Return the suite without these cases, and without images and pairs used only by them."""
    cases = tuple(case for case in suite.cases if case.slug not in excluded)
    if not cases:
        raise SuiteError("every case of this draft is excluded: include at least one")
    return replace(
        suite,
        cases=cases,
        images=tuple(p for p in suite.images if p.slug in {c.image for c in cases}),
        pairs=tuple(p for p in suite.pairs if p.slug in {c.pair for c in cases}),
    )


def diagnose_suite(suite: Suite) -> list[CaseDiagnosis]:
    """Diagnose every case across the finished runs of models.

    Runs of reference editors are used only if no model has a finished run.
    """
    runs = suite.runs.outside_experiments().filter(state=RunState.FINISHED, complete=True)
    real = runs.filter(editing_model__is_reference=False)
    chosen = list((real if real.exists() else runs).values_list("pk", "metrics"))
    run_by_all = set(METRICS).intersection(*(scored_metrics(pinned) for _, pinned in chosen))
    if not chosen or not run_by_all:
        return []
    metric = in_order(run_by_all)[0]
    results: dict[str, list[ChainResult]] = defaultdict(list)
    chains = Chain.objects.filter(run__in=[pk for pk, _ in chosen]).select_related("case__image")
    for chain in chains.iterator(chunk_size=500):
        if result := chain_result(chain, metric, suite.trips):
            results[str(chain.run_id)].append(result)
    return diagnose(results, suite.trips)
