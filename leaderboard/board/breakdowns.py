"""Half-lives by part of the suite: category, kind, origin or edit pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leaderboard import formatting
from leaderboard.board.row import BoardRow
from leaderboard.models import Case, Standing
from leaderboard.models.suites import Category, Kind, Origin

#: Number of shades in a heat table; the stylesheet has a class for each.
SHADES = 7
#: Group of the parts that are edit pairs.
PAIRS = "Edit pair"


@dataclass(frozen=True)
class Cell:
    """A cell of a heat table. `best` is True for the longest half-life in a line."""

    standing: Standing | None
    shade: int = 0
    best: bool = False


@dataclass(frozen=True)
class Part:
    """A part of the suite, such as a category: a line or column of a heat table."""

    scope: str
    label: str
    group: str


def standings_by_scope(
    rows: Iterable[BoardRow], prefix: str = ""
) -> dict[str, dict[int, Standing]]:
    """Return standings by scope (part of the suite) and run, at these rows' metric and threshold."""
    shown = [row.standing for row in rows if row.standing]
    if not shown:
        return {}
    by_scope: dict[str, dict[int, Standing]] = defaultdict(dict)
    standings = Standing.objects.filter(
        run__in=[standing.run_id for standing in shown],
        metric=shown[0].metric_id,
        threshold=shown[0].threshold,
    ).defer("curve", "details")
    if prefix:
        standings = standings.filter(scope__startswith=prefix)
    for standing in standings:
        by_scope[standing.scope][standing.run_id] = standing
    return dict(by_scope)


def pair_titles(suite: int) -> dict[str, str]:
    """Return the titles of a suite's edit pairs by slug, ordered by category."""
    cases = Case.objects.filter(suite=suite).order_by("category", "pair_title")
    return dict(cases.values_list("pair_slug", "pair_title").distinct())


def parts(scopes: Iterable[str], pair_titles: dict[str, str]) -> list[Part]:
    """Return the parts of these scopes: categories, kinds, origins, then pairs."""
    wanted = set(scopes)
    all_parts = [
        *(Part(f"category:{value}", label, "Category") for value, label in Category.choices),
        *(Part(f"kind:{value}", label, "Kind of image") for value, label in Kind.choices),
        *(Part(f"origin:{value}", label, "Origin of image") for value, label in Origin.choices),
        *(Part(f"pair:{slug}", title, PAIRS) for slug, title in pair_titles.items()),
    ]
    return [part for part in all_parts if part.scope in wanted]


def heat_lines(
    parts: Iterable[Part],
    rows: Sequence[BoardRow],
    by_scope: dict[str, dict[int, Standing]],
    trips: int,
) -> list[tuple[Part, list[Cell]]]:
    """Return each part with a cell for each row. All cells share one scale of shades."""
    longest_life = longest(by_scope, trips)
    return [
        (
            part,
            heat_line([by_scope[part.scope].get(row.run.pk) for row in rows], longest_life, trips),
        )
        for part in parts
    ]


def heat_line(standings: Sequence[Standing | None], longest: float, trips: int) -> list[Cell]:
    """Return a line's cells, shaded by half-life. Cells with the longest half-life are marked."""
    times = [_finite_life(standing, trips) for standing in standings]
    measured = [time for time in times if time is not None]
    best = max(measured, default=None)
    best_texts = {
        life_text(standing, trips)
        for standing, time in zip(standings, times, strict=True)
        if time is not None and time == best
    }
    return [
        Cell(
            standing,
            shade=0 if time is None else shade(time, longest),
            best=len(measured) > 1 and life_text(standing, trips) in best_texts,
        )
        for standing, time in zip(standings, times, strict=True)
    ]


def longest(by_scope: dict[str, dict[int, Standing]], trips: int) -> float:
    """Return the longest half-life, the end of the scale of shades."""
    times = [_finite_life(s, trips) or 0 for by_run in by_scope.values() for s in by_run.values()]
    return max(times, default=0) or trips


def shade(time: float, longest: float) -> int:
    """Return a shade from 0 (lightest) to SHADES - 1.

    The square root gives more shades to short half-lives, because most half-lives are short.
    """
    return min(SHADES - 1, int(SHADES * (max(0, time) / longest) ** 0.5))


def widest_gap(
    parts: Sequence[Part], by_scope: dict[str, dict[int, Standing]], trips: int
) -> tuple[Part, Part] | None:
    """Return the parts with the longest and the shortest median half-life, or None."""
    medians = []
    for part in parts:
        times = sorted(_finite_life(s, trips) or 0 for s in by_scope[part.scope].values())
        if times:
            medians.append((times[len(times) // 2], part.label, part))
    if len(medians) < 2:
        return None
    return max(medians)[2], min(medians)[2]


def life_text(standing: Standing | None, trips: int) -> str:
    return (
        formatting.NOT_RUN if standing is None else formatting.half_life(standing.half_life, trips)
    )


def _finite_life(standing: Standing | None, trips: int) -> float | None:
    """Return the half-life for comparisons: the number of trips if it was not reached."""
    if standing is None:
        return None
    return float(trips) if standing.half_life is None else standing.half_life
