"""Formatting of numbers and names for pages.

Spaces before units are non-breaking (U+00A0). A value that was not measured is shown as "–" or
"not run", never as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from evaluation.metrics import MetricError, metric_class

if TYPE_CHECKING:
    from evaluation.analysis.covariance import Interval

NOT_RUN = "not run"
NOT_JUDGED = "not judged"

#: Names of the edits of each category, to start a sentence.
EDITS = {
    "accessories": "Accessory edits",
    "appearance": "Edits of clothing, hair and face",
    "objects": "Object edits",
    "geometry": "Geometric edits",
    "light": "Edits of light, weather and season",
}


def metric_value(value: float | None, metric: str) -> str:
    """Format a value on the metric's own scale with its unit: "31.2 dB"."""
    if value is None:
        return "–"
    try:
        kind = metric_class(metric)
        digits, unit = kind.digits, kind.unit
    except MetricError:
        digits, unit = 3, ""
    return f"{value:.{digits}f} {unit}".rstrip()


def half_life(value: float | None, trips: int) -> str:
    """Format a half-life: "7.3", or "> 20" if it was not reached."""
    return f">\u00a0{trips}" if value is None else f"{value:.1f}"


def half_life_interval(low: float | None, high: float | None, trips: int) -> str:
    """Format an interval: "6.1–8.8" or "17.2 to > 20"; empty if no bound was reached."""
    if low is None:
        return ""
    if high is None:
        return f"{low:.1f} to {half_life(None, trips)}"
    return f"{low:.1f}–{high:.1f}"


def in_trips(value: float | None, trips: int) -> str:
    """Format a half-life: "7.3 round trips" or "more than 20 round trips"."""
    if value is None:
        return f"more than {trips} round trips"
    return f"{value:.1f} round trip{'' if f'{value:.1f}' == '1.0' else 's'}"


def count(number: int, singular: str, plural: str = "") -> str:
    """Format a number with its noun: "1 case", "300 cases"."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def percent(share: float | None, digits: int = 0) -> str:
    """Format a share: "62 %"; "< 1 %" and "> 99 %" instead of a rounded 0 or 100."""
    if share is None:
        return "–"
    shown = f"{100 * share:.{digits}f}"
    if share > 0 and float(shown) == 0:
        return f"<\u00a0{10**-digits:g}\u00a0%"
    if share < 1 - 1e-9 and float(shown) == 100:
        return f">\u00a0{100 - 10**-digits:g}\u00a0%"
    return f"{shown}\u00a0%".replace("-", "−")


def interval(low: float | None, high: float | None, scale: float = 1, digits: int = 1) -> str:
    """Format an interval: "55–69"; empty if it is unknown."""
    if low is None or high is None:
        return ""
    ends = [f"{scale * end:.{digits}f}" for end in (low, high)]
    return (" to " if "-" in "".join(ends) else "–").join(ends).replace("-", "−")


def difference(estimate: float, bounds: Interval | None) -> str:
    """Format a difference with its sign and interval: "+1.3 (0.4 to 2.2)"."""
    shown = bounds and interval(bounds.low, bounds.high).replace("–", " to ")
    return f"{estimate:+.1f}{f' ({shown})' if shown else ''}".replace("-", "−")


def kept(share: float, low: float | None = None, high: float | None = None) -> str:
    """Format a retention: "keeps 62 % (55–69) of the image"."""
    if share <= 0:
        return "keeps nothing: no better than a blank card"
    bounds = interval(low, high, 100, 0)
    return f"keeps {percent(share)}{f' ({bounds})' if bounds else ''} of the image"


def share_kept(share: float) -> str:
    """Format a retention for an image's caption: "62 % kept"."""
    return f"{percent(share)} kept" if share > 0 else "nothing kept"


def after_round_trips(number: int) -> str:
    """Return "after 5 round trips"."""
    return f"after {count(number, 'round trip')}"


def after_trips(number: int) -> str:
    """Return "after 5 trips", for narrow places."""
    return f"after {count(number, 'trip')}"


def usd(price: Decimal | float | None) -> str:
    """Format a price: "$0.039", "free", or "–" if it is unknown."""
    if price is None:
        return "–"
    value = float(price)
    if value == 0:
        return "free"
    if value < 0.01:
        return f"${value:.2g}"
    shown = f"${value:.3f}"
    return shown[:-1] if value >= 1 or shown.endswith("0") else shown


def seconds(value: float | None) -> str:
    """Format a duration: "68 ms", "0.4 s", "12 s", "3.1 min"."""
    if value is None:
        return "–"
    if value >= 120:
        return f"{value / 60:.1f}\u00a0min"
    if value >= 10:
        return f"{value:.0f}\u00a0s"
    return f"{value:.1f}\u00a0s" if value >= 0.1 else f"{1000 * value:.0f}\u00a0ms"


def ranks(low: int | None, high: int | None) -> str:
    """Format the possible ranks: "1–3"; empty if only one rank is possible or ranks are unknown."""
    return f"{low}–{high}" if low is not None and high is not None and low != high else ""


def metric_label(name: str) -> str:
    """Return the label of a metric: "LPIPS"."""
    try:
        return metric_class(name).label
    except MetricError:
        return name.replace("_", " ").upper()


def looks_at(name: str) -> str:
    """Return what a metric measures: "perceived quality"; empty for a metric of the past."""
    try:
        return metric_class(name).looks_at
    except MetricError:
        return ""


def metric_choice(name: str) -> str:
    """Return a metric as a choice of a form: "LPIPS: perceived quality"."""
    measured = looks_at(name)
    return f"{metric_label(name)}: {measured}" if measured else metric_label(name)


def edits(category: str) -> str:
    """Return the name of a category's edits: "Geometric edits"."""
    return EDITS.get(category) or f"{category.replace('-', ' ').capitalize()} edits"


def listed(names: Sequence[str], most: int = 3, total: int = 0) -> str:
    """Join names: "A, B and C", "A, B, C and 4 more". `total` also counts names not given."""
    shown, count = list(names[:most]), max(total, len(names))
    if count > most:
        return f"{', '.join(shown)} and {count - most} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""
