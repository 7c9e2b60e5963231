"""News of the board as a page and an Atom feed, and the board as it was on a past day."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Max, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.feedgenerator import Atom1Feed
from django.views.decorators.http import require_safe

from evaluation.content.suites import find_suite
from evaluation.metrics import HEADLINE
from leaderboard import formatting
from leaderboard.board.rows import played_suites, stamp
from leaderboard.models import EditingModel, Run, Suite
from leaderboard.models.standings import BoardRecord
from leaderboard.page_cache import cached_page, uncached
from leaderboard.text import absolute, plain_text
from leaderboard.views.site import noindex_variants
from leaderboard.visitors import limited


@require_safe
@cached_page(stamp, ("suite",))
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    """Show the changes of the board, the newest first."""
    offered = played_suites()
    suite_key = request.GET.get("suite", "")
    suite = find_suite(suite_key, offered)
    context = {
        "entries": news(suite=suite),
        "suites": offered,
        "suite": suite,
        "today": timezone.localdate(),
    }
    response = render(request, "leaderboard/news.html", context)
    return uncached(response) if suite_key and suite is None else response


@require_safe
@cached_page(stamp, ("suite", "model"))
def feed(request: HttpRequest) -> HttpResponse:
    """Serve all news, or the news of one suite or model, as an Atom feed."""
    suite_key, slug = request.GET.get("suite", ""), request.GET.get("model", "")
    suite = find_suite(suite_key, played_suites()) if suite_key else None
    published = EditingModel.objects.filter(status=EditingModel.Status.PUBLISHED)
    model = published.filter(slug=slug).first() if slug else None
    if (suite_key and suite is None) or (slug and model is None):
        return HttpResponse("There is no such suite or model.\n", status=404)
    subject = " ".join(f": {part}" for part in (model, suite) if part)
    # Built from valid parameters only, because the cached feed is served to every visitor.
    parameters = {"suite": suite and suite.key, "model": model and model.slug}
    query = urlencode({name: value for name, value in parameters.items() if value})
    atom = Atom1Feed(
        title=plain_text(f"ConvergeBench{subject}"),
        link=absolute("/new/"),
        description="New models, runs, suites and ranks of the leaderboard of image editors.",
        feed_url=absolute(f"{reverse('feed')}{'?' if query else ''}{query}"),
        language="en",
    )
    for entry in news(suite=suite, model=model):
        # Names from bundles may contain control characters, which XML forbids.
        atom.add_item(
            title=plain_text(entry.title),
            link=absolute(entry.url),
            description=plain_text(entry.text),
            pubdate=entry.at,
            updateddate=entry.at,
            unique_id=absolute(f"/new/#{entry.key}"),
        )
    return HttpResponse(
        atom.writeString("utf-8"), content_type="application/atom+xml; charset=utf-8"
    )


@require_safe
@noindex_variants
def past_board(request: HttpRequest) -> HttpResponse:
    """Show the board of a suite as it was on a day."""
    if too_many := limited(request, "board_then"):
        return too_many
    offered = played_suites()
    suite_key, text = (request.GET.get(name, "") for name in ("suite", "date"))
    suite = find_suite(suite_key, offered) or next(iter(offered), None)
    day = _day(text)
    context: dict[str, Any] = {
        "suites": offered,
        "suite": suite,
        "day": day or timezone.localdate(),
        "remark": f"“{text[:20]}” is not a date such as 2026-11-17. Today’s board is shown."
        if text and not day
        else "",
        "today": timezone.localdate(),
        "headline": HEADLINE,
    }
    if suite:
        context["rows"] = board_on(suite, context["day"])
        context["first_day"] = first_day(suite)
        if not context["rows"]:
            context["references"] = reference_editors_on(suite, context["day"])
    return render(request, "leaderboard/board_then.html", context)


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if "2000" < text < "2999" else None
    except ValueError:
        return None


Kind = BoardRecord.Kind
#: Limits of the page and the feed: records read, and entries shown.
MAX_RECORDS, MAX_ENTRIES = 1_500, 60


@dataclass(frozen=True)
class News:
    """A news entry: the changes of a suite's board at one moment, or a new suite."""

    key: str
    at: datetime.datetime
    suite: Suite
    title: str
    url: str
    details: Sequence[str] = ()

    @property
    def text(self) -> str:
        return " ".join(self.details)


def news(suite: Suite | None = None, model: EditingModel | None = None) -> list[News]:
    """Return the news, newest first: changes of models, runs and ranks, and new suites."""
    records = _public_records()
    if suite:
        records = records.filter(run__suite=suite)
    if model:
        records = records.filter(run__editing_model=model)
    moments: dict[tuple[datetime.datetime, int], list[BoardRecord]] = defaultdict(list)
    for row in records.order_by("-at", "-pk")[:MAX_RECORDS]:
        moments[row.at, row.run.suite_id].append(row)
    entries = [entry for rows in moments.values() if (entry := _board_entry(rows))]
    if model is None:
        frozen = Suite.objects.frozen().filter(published_elsewhere=False).defer("definition")
        suites = frozen.filter(frozen_at__isnull=False)
        if suite:
            suites = suites.filter(pk=suite.pk)
        entries += [_suite_entry(row) for row in suites.order_by("-frozen_at")[:MAX_ENTRIES]]
    return sorted(entries, key=lambda entry: entry.at, reverse=True)[:MAX_ENTRIES]


def board_on(suite: Suite, day: datetime.date) -> list[BoardRecord]:
    """Return the suite's board at the end of that day: ranked models first."""
    # The database selects the last record of each model, because all records would be too many.
    rows = BoardRecord.objects.public().filter(run__suite=suite, at__lt=_end_of_day(day)).order_by()
    last = rows.values("run__editing_model").annotate(last=Max("pk")).values("last")
    return sorted(
        _public_records().filter(pk__in=last).exclude(kind=Kind.LEFT),
        key=lambda row: (row.rank is None, -row.usable_trips, row.run.editing_model.name),
    )


def reference_editors_on(suite: Suite, day: datetime.date) -> list[str]:
    """Return the names of the reference editors that had results by the end of that day."""
    runs = Run.objects.on_the_board().filter(suite=suite, editing_model__is_reference=True)
    names = runs.filter(finished_at__lt=_end_of_day(day)).values_list(
        "editing_model__name", flat=True
    )
    return sorted(set(names))


def _end_of_day(day: datetime.date) -> datetime.datetime:
    midnight = datetime.datetime.combine(day + datetime.timedelta(days=1), datetime.time.min)
    return timezone.make_aware(midnight, datetime.UTC)


def first_day(suite: Suite) -> datetime.date | None:
    """Return the first day with a record of the suite's board."""
    first = _public_records().filter(run__suite=suite).order_by("at").first()
    return first.at.date() if first else None


def _public_records() -> QuerySet[BoardRecord]:
    rows = BoardRecord.objects.public().select_related("run__editing_model", "run__suite")
    return rows.defer(
        "run__provenance",
        "run__suite__definition",
        "run__editing_model__options",
        "run__editing_model__api_key",
    )


def _board_entry(rows: Sequence[BoardRecord]) -> News | None:
    """Return an entry for the changes at one moment; None if results were only recomputed."""
    suite = rows[0].run.suite
    order = list(Kind)
    changes = sorted(
        (row for row in rows if row.kind != Kind.NUMBERS),
        key=lambda row: (order.index(Kind(row.kind)), row.rank or 999, row.run.editing_model.name),
    )
    if not changes:
        return None
    first = changes[0]
    same_kind = [row.run.editing_model.name for row in changes if row.kind == first.kind]
    page = f"{first.run.editing_model.get_absolute_url()}?suite={suite.key}"
    return News(
        key=f"board-{first.pk}",
        at=first.at,
        suite=suite,
        title=sentence(first)
        if len(same_kind) == 1
        else f"{suite}: {_many(first.kind, same_kind)}",
        url=page if len(same_kind) == 1 else f"{reverse('board')}?suite={suite.key}",
        details=[f"{sentence(row)}." for row in changes],
    )


def sentence(row: BoardRecord) -> str:
    """Return a sentence without a full stop: "A is new on Lite v1: rank 2, half-life 4.2"."""
    name, suite = row.run.editing_model.name, row.run.suite
    life = f"half-life {formatting.half_life(row.half_life, suite.trips)}"
    place = f"rank {row.rank}" if row.rank else "not ranked"
    if row.kind == Kind.ADDED:
        return f"{name} is new on {suite}: {place}, {life}"
    if row.kind == Kind.AGAIN:
        moved = f" (before: {row.rank_before})" if row.rank_before not in (None, row.rank) else ""
        return f"{name} was played again on {suite}: {place}{moved}, {life}"
    if row.kind == Kind.LEFT:
        return f"{name} is no longer on {suite}"
    if row.kind == Kind.NUMBERS:
        return f"{name} was measured again on {suite}: {place}, {life}"
    if row.rank is None or row.rank_before is None:
        return f"{name} is {'no longer' if row.rank is None else 'now'} ranked on {suite}" + (
            f": {place}" if row.rank else ""
        )
    verb = "rises" if row.rank < row.rank_before else "falls"
    return f"{name} {verb} from rank {row.rank_before} to {row.rank} on {suite}"


def _many(kind: str, names: Sequence[str]) -> str:
    words = {
        Kind.ADDED: "are new on the board",
        Kind.AGAIN: "were played again",
        Kind.MOVED: "changed rank",
        Kind.LEFT: "are no longer on the board",
    }[Kind(kind)]
    return f"{formatting.listed(names)} {words}"


def _suite_entry(suite: Suite) -> News:
    assert suite.frozen_at  # noqa: S101
    changes = [suite.changes] if suite.changes else []
    return News(
        key=f"suite-{suite.pk}",
        at=suite.frozen_at,
        suite=suite,
        title=f"{suite} is a new suite: {formatting.count(suite.trips, 'round trip')}",
        url=suite.get_absolute_url(),
        details=[*changes, suite.description] if suite.description else changes,
    )
