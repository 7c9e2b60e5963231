"""Pages that are mostly text: methodology, about, changelog, reported results and tour."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Count, Min
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evaluation.analysis.events import ChainResult, event
from evaluation.analysis.half_life import METHOD_VERSION, summarise
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, named, other_names, state
from evaluation.measuring.error_rates import WEAR, ErrorTable
from evaluation.metrics.parts import PARTS
from evaluation.witnesses import WITNESSES, witness_class, witness_label
from leaderboard import formatting
from leaderboard.board.example import Example, example
from leaderboard.board.query import BoardQuery
from leaderboard.board.rows import RANKED, REFERENCE, grouped, stamp
from leaderboard.models import MetricVersion, StoredImage, Suite
from leaderboard.page_cache import cached_page
from leaderboard.pages.reported import reports
from leaderboard.views.board import example_rows


def constant_stamp() -> str:
    """Return the stamp (part of the cache key) of pages that change only with the code."""
    return ""


@require_safe
@cached_page(constant_stamp)
def methodology(request: HttpRequest) -> HttpResponse:
    """Show the definitions, with examples measured by the benchmark's own code."""
    context = method() | {
        "examples": examples(),
        "strips": strips(),
        "damages": damages(),
        "tricks": tricks(),
        "change_seen_errors": ErrorTable.stored("change_seen"),
        "witnesses": witness_rows(),
        "witness_errors": witness_errors(),
        "worked": worked_example(),
        "other_names": other_names(),
    }
    return render(request, "leaderboard/methodology.html", context)


def method() -> dict[str, Any]:
    """Return the constants that the method's text and docs/method.md contain."""
    return {
        "parts": PARTS,
        "method_version": METHOD_VERSION,
        "default_threshold": DEFAULT_THRESHOLD,
    }


@require_safe
@cached_page(constant_stamp)
def about(request: HttpRequest) -> HttpResponse:
    return render(request, "leaderboard/about.html", {"contact": settings.CONTACT_EMAIL})


@require_safe
@cached_page(stamp)
def changelog(request: HttpRequest) -> HttpResponse:
    """Show the versions of suites and metrics."""
    suites = Suite.objects.frozen().defer("definition").order_by("-frozen_at", "slug", "-version")
    versions = MetricVersion.objects.annotate(
        first=Min("standings__run__finished_at"), runs=Count("standings__run", distinct=True)
    )
    context = {
        "suites": suites.annotate(case_count=Count("cases")),
        "versions": [version for version in versions if version.runs],
        "method_version": METHOD_VERSION,
    }
    return render(request, "leaderboard/changelog.html", context)


@require_safe
@cached_page(stamp)
def reported(request: HttpRequest) -> HttpResponse:
    """Show the results that others published."""
    tables = Suite.objects.frozen().filter(published_elsewhere=True).defer("definition")
    context = {"reports": reports(), "tables": tables.order_by("slug", "-version")}
    return render(request, "leaderboard/reported.html", context)


def witness_rows() -> list[dict[str, Any]]:
    """Return the witnesses (automatic checks of edits), with what each can and cannot judge."""
    names = ("name", "label", "can", "cannot", "licence")
    kinds = [witness_class(name) for name in WITNESSES]
    return [
        {name: getattr(kind, name) for name in names}
        | {"ends": ", ".join(sorted(gate.replace("_", " ") for gate in kind.gates))}
        for kind in kinds
    ]


def witness_errors() -> list[dict[str, Any]]:
    """Return each witness's errors, summed over all suites and kinds of wear.

    Rows without a suite come from a real chain.
    """
    rows: dict[tuple[str, str, bool], dict[str, Any]] = {}
    for row in ErrorTable.stored("witness").rows:
        what, _, wear = row.what.rpartition(", ")
        if wear not in WEAR:
            what = row.what if row.suite else f"{what}, on the real chain"
        total = rows.setdefault(
            (row.of, what, row.should_be_seen),
            {
                "of": witness_label(row.of),
                "what": _question(what),
                "should_be_seen": row.should_be_seen,
                "judged": 0,
                "wrong": 0,
            },
        )
        total["judged"] += row.judged
        total["wrong"] += len(row.wrong)
    return list(rows.values())


def _question(what: str) -> str:
    """Return the question to a witness and what was really done: "made? (a red ball instead)"."""
    question, *details = (WITNESS_WORDS.get(part, part) for part in what.split(", "))
    return f"{question}? ({', '.join(details)})" if details else f"{question}?"


#: Maps words in the stored error rates to the words of the page.
WITNESS_WORDS = {
    "what else was there kept": "rest kept",
    "left on": "left in place",
    "every move": "flips and turns",
    "worn things": "things that people wear",
}


@cache
def examples() -> dict[str, Any]:
    """Return the images and measurements that `python -m tools.examples` made."""
    return _load("examples")


def strips() -> list[dict[str, Any]]:
    """Return the example strips, each with the damaged image's state and what was lost most."""
    labels = {part.name: part.label for part in PARTS}
    return [
        strip | {"state": state(strip["kept"]), "part": labels[strip["because"]]}
        for strip in examples()["strips"]
    ]


@cache
def damages() -> dict[str, Any]:
    """Return the measurements of `python -m tools.studies headline`."""
    return _load("damages")


@cache
def tricks() -> dict[str, Any]:
    """Return the measured retention of editors that cheat, by trick, and of honest editors."""
    return _load("tricks")


def _load(name: str) -> dict[str, Any]:
    path = settings.BASE_DIR / "static" / "img" / "examples" / f"{name}.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


TRIPS = 10
#: Width and height of the drawn survival curve.
DRAWING_SIZE = (400, 120)

_STORIES = {
    "A slow decline": ("completed", [0.93, 0.86, 0.78, 0.71, 0.63, 0.56, 0.47, 0.41, 0.36, 0.30]),
    "A fast decline": ("completed", [0.74, 0.52, 0.38, 0.29, 0.22, 0.17, 0.13, 0.10, 0.08, 0.06]),
    "It hardly fades": ("completed", [0.97, 0.95, 0.93, 0.91, 0.90, 0.88, 0.87, 0.86, 0.85, 0.84]),
    "It falls and comes back": (
        "completed",
        [0.81, 0.66, 0.55, 0.44, 0.53, 0.58, 0.52, 0.47, 0.40, 0.35],
    ),
    "It refuses on trip 4": ("refused", [0.90, 0.83, 0.77]),
    "It does nothing": ("completed", [1.0] * TRIPS),
}


@cache
def worked_example() -> dict[str, Any]:
    """Return six example chains, the events that end them, and the half-life that results."""
    chains = {story: _chain(story, index) for index, story in enumerate(_STORIES)}
    events = {story: event(chain, TRIPS, DEFAULT_THRESHOLD) for story, chain in chains.items()}
    summary = summarise(list(chains.values()), TRIPS)
    return {
        "lines": [
            {
                "story": story,
                "kept": [formatting.percent(share) for share in chain.retention],
                "event": events[story],
                "why": _WHY[events[story].cause],
            }
            for story, chain in chains.items()
        ],
        "half_life": formatting.half_life(summary.half_life, TRIPS),
        "usable_trips": f"{summary.usable_trips:.1f}",
        "path": _survival_path(
            sorted((end.time, end.cause is not None) for end in events.values())
        ),
    }


_WHY = {
    "whole": named(),
    "refused": "it refused",
    "not_made": "the edit was not made",
    None: "never: counted as more than 10",
}


def _chain(story: str, index: int) -> ChainResult:
    outcome, retention = _STORIES[story]
    seen = (story != "It does nothing",) * len(retention)
    return ChainResult(
        image=f"image-{index}",
        pair="example",
        category="accessories",
        kind="face",
        origin="photograph",
        repeat=0,
        retention=tuple(retention),
        outcome=outcome,
        change_seen=seen,
    )


def _survival_path(times: list[tuple[float, bool]]) -> str:
    """Return the survival curve as an SVG path."""
    width, height = DRAWING_SIZE
    alive, path = 1.0, "M0 0"
    for time, ended in times:
        if ended:
            alive -= 1 / len(times)
            path += f"H{width * time / TRIPS:.0f}V{height * (1 - alive):.0f}"
    return f"{path}H{width}"


class Stop(NamedTuple):
    """A step of the tour: its images, the newest last, and its text."""

    images: Sequence[tuple[StoredImage, str]]
    title: str
    text: str = ""


@require_safe
@cached_page(stamp)
def tour(request: HttpRequest) -> HttpResponse:
    query = BoardQuery.parse({})
    shown = None
    if query:
        groups = grouped(query.rows())
        shown = example(example_rows(groups[RANKED], groups[REFERENCE]), query.filters)
    context = {"stops": stops(shown) if shown else [], "example": shown}
    return render(request, "leaderboard/tour.html", context)


def stops(shown: Example) -> list[Stop]:
    """Return the stops of the tour: one per image, then two explanations."""
    case, name = shown.chain.case, shown.row.model.name
    source, edited, *restored = shown.steps
    first = restored[0]
    before = (source.image, "source")
    tour_stops = [
        Stop(
            [before],
            "Start with an image: the source.",
            "Each restored image will be compared with the source.",
        ),
        Stop(
            [before, (edited.image, "edited")],
            f"“{case.forward}”",
            f"{name} is asked to change the image.",
        ),
        Stop(
            [before, (first.image, "undone")],
            f"“{case.backward}”",
            f"{name} is asked to undo the change. This is one round trip. "
            f"{_kept(first.retention)}".rstrip(),
        ),
    ]
    tour_stops += [
        Stop(
            [before, (step.image, step.caption)],
            f"And again: {step.caption}.",
            _kept(step.retention),
        )
        for step in restored[1:]
    ]
    return [*tour_stops, *_explanations(shown)]


def _kept(share: float | None) -> str:
    return "" if share is None else f"{formatting.percent(max(0.0, share))} of the image is kept."


def _explanations(shown: Example) -> list[Stop]:
    ends = [(shown.steps[0].image, "source"), (shown.steps[-1].image, shown.steps[-1].caption)]
    trips = shown.row.filters.suite.trips
    life = shown.row.standing.half_life if shown.row.standing else None
    lasts = formatting.in_trips(life, trips)
    return [
        Stop(
            ends,
            "How much is kept?",
            "100 % is the source itself. Below 50 % the image is clearly damaged: an object is "
            "gone, colours have changed, or the whole image lost quality.",
        ),
        Stop(
            ends,
            "How long does an image last?",
            "Until it is clearly damaged, or the edit is not made. Half of all images last longer "
            f"than the half-life. For {shown.row.model.name}, the half-life is {lasts}.",
        ),
    ]
