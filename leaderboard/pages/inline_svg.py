"""Small inline drawings: a standing in, SVG out. No script, no style attribute."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString

from evaluation.analysis.comparison import Difference
from evaluation.content.suites import ticks
from leaderboard.models import Standing

WIDTH, HEIGHT = 64, 22


def half_life_bar(standing: Standing, trips: int) -> SafeString:
    """The half-life on an axis of 0..N, with its interval; unreached runs to the end."""

    def place(value: float | None) -> str:
        return _number(100 if value is None else 100 * min(value, trips) / trips)

    end, open_end = place(standing.half_life), " open" if standing.half_life is None else ""
    whisker = ""
    if standing.has_interval:
        low, high = place(standing.half_life_low), place(standing.half_life_high)
        whisker = f"M{low} 5H{high}M{low} 2v6"
        whisker += "" if standing.half_life_high is None else f"M{high} 2v6"
    return format_html(
        '<svg class="bar{}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<path d="M0 1H{}V9H0z"/><path d="{}"/></svg>',
        open_end,
        end,
        whisker,
    )


def sparkline(curve: dict[str, Sequence[float | None]], trips: int) -> SafeString:
    """Retention over the trips with its band, sampled where people read it."""
    numbers = [0, *ticks(trips)]

    def points(values: Sequence[float | None]) -> list[str]:
        return [
            f"{_number(WIDTH * n / trips)} {_number(HEIGHT * (1 - min(1, max(0, values[n] or 0))))}"
            for n in numbers
            if n < len(values) and values[n] is not None
        ]

    line, low, high = (points(curve.get(name, ())) for name in ("mean", "low", "high"))
    band = f"M{'L'.join([*high, *reversed(low)])}z" if low and high else ""
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" aria-hidden="true"><path d="{}"/><path d="{}"/></svg>',
        WIDTH,
        HEIGHT,
        band,
        f"M{'L'.join(line)}" if line else "",
    )


def difference_bar(difference: Difference, span: float) -> SafeString:
    """A difference with its interval on an axis of -span..span, zero in the middle."""
    bounds = difference.interval
    low, high = (bounds.low, bounds.high) if bounds else (None, None)

    def place(value: float) -> str:
        return _number(50 + 50 * max(-1, min(1, value / (span or 1))))

    whisker = "" if low is None or high is None else f"M{place(low)} 5H{place(high)}"
    return format_html(
        '<svg class="difference" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<path d="M50 0V10"/><path d="{}"/><path d="M{} 1v8"/></svg>',
        whisker,
        place(difference.estimate),
    )


def axis_ticks(trips: int) -> list[int]:
    """A few round numbers from 0 to N, for the head of a column of bars."""
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50) if trips / s <= 5)
    return list(range(0, trips + 1, step))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
