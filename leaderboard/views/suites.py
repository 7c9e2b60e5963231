"""Pages of the suites: their cases, images, pairs and versions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.content.datasheet import datasheet
from evaluation.content.edit_types import BY_FAMILY
from evaluation.metrics import HEADLINE
from leaderboard.board.rows import stamp
from leaderboard.models import Case, Run, SourceImage, Standing, Suite, SuiteImage, SuiteReport
from leaderboard.models.suites import Category, EditPair, Kind
from leaderboard.page_cache import cached_page
from leaderboard.pages.model_page import shell_name
from leaderboard.text import attachment


@require_safe
@cached_page(stamp)
def index(request: HttpRequest) -> HttpResponse:
    """Show the newest version of every frozen suite, then older versions."""
    suites = list(_counted(Suite.objects.frozen()))
    newest: dict[str, Suite] = {}
    for suite in sorted(suites, key=lambda suite: -suite.version):
        newest.setdefault(suite.slug, suite)
    shown = [suite for suite in suites if newest[suite.slug] == suite]
    older = [suite for suite in suites if newest[suite.slug] != suite]
    context = {"suites": shown, "older": older, "sealed": _sealed()}
    return render(request, "leaderboard/suites.html", context)


@require_safe
def latest(request: HttpRequest, slug: str) -> HttpResponse:
    """Redirect to the newest version of a suite."""
    versions = Suite.objects.frozen().defer("definition").filter(slug=slug)
    suite = versions.order_by("-version").first()
    if suite is None:
        raise Http404("There is no such suite.")
    return redirect(suite)


@require_safe
@cached_page(stamp)
def detail(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    suite = get_object_or_404(Suite.objects.frozen(), slug=slug, version=version)
    cases = list(Case.objects.filter(suite=suite).select_related("edit_pair"))
    images = list(SuiteImage.objects.filter(suite=suite).select_related("stored"))
    versions = _counted(Suite.objects.frozen().filter(slug=slug)).order_by("-version")
    context = {
        "suite": suite,
        "board_query": f"suite={suite.key}",
        "shell_name": shell_name(suite),
        "cases": cases,
        "edits": sum(case.repeats * case.edits for case in cases),
        "images": _images(suite, images, cases),
        "pairs": _pairs(suite, cases),
        "balance": _balance(cases),
        "types": _types(suite),
        "twice": sum(case.repeats > suite.repeats for case in cases),
        "datasheet": datasheet(SourceImage.objects.filter(suite_images__suite=suite)),
        "licences": Counter(image.licence for image in images).most_common(),
        "versions": versions,
        "runs": Run.objects.public().outside_experiments().filter(suite=suite).count(),
        "power": _power(suite),
    }
    return render(request, "leaderboard/suite.html", context)


@require_safe
def file(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """Serve the suite file for `convergebench run --suite`."""
    suite = get_object_or_404(Suite.objects.frozen(), slug=slug, version=version)
    if suite.definition is None:
        raise Http404("This suite was published elsewhere and has no file.")
    text = json.dumps(suite.definition, ensure_ascii=False, indent=1)
    headers = attachment(f"{suite.key}.json")
    return HttpResponse(text, content_type="application/json", headers=headers)


def _power(suite: Suite) -> dict[str, float | None]:
    """Return the suite's statistical power; {} until a worker has computed it."""
    report = SuiteReport.objects.filter(suite=suite, method_version=METHOD_VERSION).first()
    return report.power if report else {}


def _sealed() -> list[tuple[Suite, list[Standing]]]:
    """Return the sealed suites (with secret cases), each with its standings."""
    suites = list(Suite.objects.sealed().defer("definition").order_by("slug", "-version"))
    standings = Standing.objects.filter(
        run__in=Run.objects.counted().filter(suite__in=suites, current=True),
        metric__name=HEADLINE,
        threshold=DEFAULT_THRESHOLD,
        scope="all",
    ).select_related("run__editing_model")
    rows = standings.order_by("-usable_trips", "run__editing_model__name")
    return [(suite, [row for row in rows if row.run.suite_id == suite.pk]) for suite in suites]


def _counted(suites: Any) -> Any:
    """Annotate suites with their numbers of cases, images and public runs."""

    def count(rows: Any) -> Any:
        grouped = rows.order_by().values("suite").annotate(number=Count("pk")).values("number")
        return Coalesce(Subquery(grouped), 0)

    of_suite = Q(suite=OuterRef("pk"))
    return (
        suites.defer("definition")
        .with_edits()
        .annotate(
            case_count=count(Case.objects.filter(of_suite)),
            image_count=count(SuiteImage.objects.filter(of_suite)),
            run_count=count(Run.objects.public().outside_experiments().filter(of_suite)),
        )
    )


def _images(
    suite: Suite, images: Sequence[SuiteImage], cases: Sequence[Case]
) -> list[dict[str, Any]]:
    """Return each image with its origin and its cases."""
    by_slug = {row["slug"]: row for row in (suite.definition or {}).get("images", [])}
    by_image: dict[int, list[Case]] = {}
    for case in cases:
        by_image.setdefault(case.image_id, []).append(case)
    return [
        {
            "image": image,
            "origin": {"author": "", "source_url": "", "made": ""} | by_slug.get(image.slug, {}),
            "cases": by_image.get(image.pk, []),
        }
        for image in images
    ]


#: What each class of reversibility means.
REVERSIBILITY = {
    "exact": "Nothing is lost: the inverse can restore every pixel",
    "clean": "The edit hides little: the inverse can restore nearly everything",
    "partial": "The edit hides or changes a part that the inverse must guess",
    "destroys": "The edit destroys information that the inverse must invent",
    "invents": "The edit redraws its subject: the inverse must invent the original",
}


def _pairs(suite: Suite, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return each pair as the suite froze it, with its number of cases."""
    by_slug = {row["slug"]: row for row in (suite.definition or {}).get("pairs", [])}
    counts = Counter(case.pair_slug for case in cases)
    changes, ways = dict(EditPair.Change.choices), dict(EditPair.Reversibility.choices)
    pairs: dict[str, dict[str, Any]] = {}
    for case in cases:
        frozen = by_slug.get(case.pair_slug, {})
        current = case.edit_pair
        pairs.setdefault(
            case.pair_slug,
            {
                "case": case,
                "count": counts[case.pair_slug],
                "change": changes.get(frozen.get("change", ""), "").partition(":")[0],
                "reversibility": ways.get(frozen.get("reversibility", ""), ""),
                "reversible": REVERSIBILITY.get(frozen.get("reversibility", ""), ""),
                # True if curators changed the prompts later. Results were made with the old
                # prompts.
                "changed": current is not None
                and (current.forward, current.backward) != (case.forward, case.backward),
            },
        )
    return sorted(pairs.values(), key=lambda row: (row["case"].category, row["case"].pair_title))


def _types(suite: Suite) -> list[tuple[str, list[tuple[str, int]], list[str]]]:
    """Return for each family of edit types: those of the suite, with counts, and all others."""
    counts = Counter(row.get("type", "") for row in (suite.definition or {}).get("pairs", []))
    families = [
        (
            family,
            [(title, counts[key]) for key, title in kinds if counts[key]],
            [title for key, title in kinds if not counts[key]],
        )
        for family, kinds in BY_FAMILY
    ]
    return families if any(used for _, used, _ in families) else []


def _balance(cases: Sequence[Case]) -> dict[str, Any]:
    """Count the cases of each category on each kind of image."""
    counts = Counter((case.category, case.kind) for case in cases)
    kinds = [(value, label) for value, label in Kind.choices if any(k == value for _, k in counts)]
    rows = []
    for category, label in Category.choices:
        numbers = [counts[category, kind] for kind, _ in kinds]
        if sum(numbers):
            rows.append((label, numbers, sum(numbers)))
    totals = [sum(counts[category, kind] for category in Category.values) for kind, _ in kinds]
    return {"kinds": [label for _, label in kinds], "rows": rows, "totals": totals}
