"""What is new on the board, and what the board was on another day."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Max, QuerySet
from django.urls import reverse
from django.utils import timezone

from leaderboard import formatting
from leaderboard.models import EditingModel, Suite
from leaderboard.models.standings import BoardRecord

Kind = BoardRecord.Kind
#: Changes that the page and the feed go back to.
MOST_RECORDS, MOST_NEWS = 1_500, 60


@dataclass(frozen=True)
class News:
    """What happened on one suite at one moment: the title says the most important of it."""

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
    """The newest first: models, runs and ranks that changed, and suites that were frozen."""
    records = _public_records()
    if suite:
        records = records.filter(run__suite=suite)
    if model:
        records = records.filter(run__editing_model=model)
    moments: dict[tuple[datetime.datetime, int], list[BoardRecord]] = defaultdict(list)
    for row in records.order_by("-at", "-pk")[:MOST_RECORDS]:
        moments[row.at, row.run.suite_id].append(row)
    found = [said for rows in moments.values() if (said := _of_moment(rows))]
    if model is None:
        frozen = Suite.objects.frozen().filter(published_elsewhere=False).defer("definition")
        suites = frozen.filter(frozen_at__isnull=False)
        if suite:
            suites = suites.filter(pk=suite.pk)
        found += [_of_suite(one) for one in suites.order_by("-frozen_at")[:MOST_NEWS]]
    return sorted(found, key=lambda one: one.at, reverse=True)[:MOST_NEWS]


@dataclass(frozen=True)
class Past:
    """A model as it stood on another day."""

    record: BoardRecord

    @property
    def model(self) -> EditingModel:
        return self.record.run.editing_model


def board_on(suite: Suite, day: datetime.date) -> list[Past]:
    """The suite's board as it was when that day ended: ranked models, then the others."""
    midnight = datetime.datetime.combine(day + datetime.timedelta(days=1), datetime.time.min)
    end = timezone.make_aware(midnight, datetime.UTC)
    # The database picks them: of records there are ever more.
    rows = BoardRecord.objects.public().filter(run__suite=suite, at__lt=end).order_by()
    last = rows.values("run__editing_model").annotate(last=Max("pk")).values("last")
    there = [Past(row) for row in _public_records().filter(pk__in=last).exclude(kind=Kind.LEFT)]
    return sorted(
        there,
        key=lambda past: (past.record.rank is None, -past.record.usable_trips, past.model.name),
    )


def first_day(suite: Suite) -> datetime.date | None:
    """The first day of which the board is known."""
    first = _public_records().filter(run__suite=suite).order_by("at").first()
    return first.at.date() if first else None


def records_of(model: EditingModel, suite: Suite) -> list[BoardRecord]:
    """Where the model stood on this suite, the oldest first."""
    rows = BoardRecord.objects.public().filter(run__editing_model=model, run__suite=suite)
    return list(rows.order_by("at", "pk"))


def _public_records() -> QuerySet[BoardRecord]:
    rows = BoardRecord.objects.public().select_related("run__editing_model", "run__suite")
    return rows.defer(
        *("run__provenance", "run__suite__definition"),
        *("run__editing_model__options", "run__editing_model__api_key"),
    )


def _of_moment(rows: Sequence[BoardRecord]) -> News | None:
    """One entry for all that changed when the ranks were made anew; None for mere recomputing."""
    suite = rows[0].run.suite
    order = list(Kind)
    told = sorted(
        (row for row in rows if row.kind != Kind.NUMBERS),
        key=lambda row: (order.index(Kind(row.kind)), row.rank or 999, row.run.editing_model.name),
    )
    if not told:
        return None
    first = told[0]
    alike = [row.run.editing_model.name for row in told if row.kind == first.kind]
    page = f"{first.run.editing_model.get_absolute_url()}?suite={suite.key}"
    return News(
        key=f"board-{first.pk}",
        at=first.at,
        suite=suite,
        title=sentence(first) if len(alike) == 1 else f"{suite}: {_many(first.kind, alike)}",
        url=page if len(alike) == 1 else f"{reverse('board')}?suite={suite.key}",
        details=[f"{sentence(row)}." for row in told],
    )


def sentence(row: BoardRecord) -> str:
    """Return "A is new on Lite v1: rank 2, half-life 4.2", without the full stop."""
    name, suite = row.run.editing_model.name, row.run.suite
    life = f"half-life {formatting.half_life(row.half_life, suite.trips)}"
    place = f"rank {row.rank}" if row.rank else "not ranked"
    if row.kind == Kind.ADDED:
        return f"{name} is new on {suite}: {place}, {life}"
    if row.kind == Kind.AGAIN:
        moved = f", it was {row.rank_before}" if row.rank_before not in (None, row.rank) else ""
        return f"{name} was played again on {suite}: {place}{moved}, {life}"
    if row.kind == Kind.LEFT:
        return f"{name} is no longer on {suite}"
    if row.kind == Kind.NUMBERS:
        return f"{name} was measured anew on {suite}: {place}, {life}"
    if row.rank is None or row.rank_before is None:
        return f"{name} is {'no longer' if row.rank is None else 'now'} ranked on {suite}" + (
            f": {place}" if row.rank else ""
        )
    way = "rises" if row.rank < row.rank_before else "falls"
    return f"{name} {way} from rank {row.rank_before} to {row.rank} on {suite}"


def _many(kind: str, names: Sequence[str]) -> str:
    words = {
        Kind.ADDED: "are new on the board",
        Kind.AGAIN: "were played again",
        Kind.MOVED: "have another rank",
        Kind.LEFT: "are no longer on the board",
    }[Kind(kind)]
    return f"{formatting.listed(names)} {words}"


def _of_suite(suite: Suite) -> News:
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
