"""Numbers in words: the one place that formats values for pages.

A space before a unit or a sign never breaks (U+00A0). A value that was not measured is shown as
such, never as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from evaluation.metrics import MetricError, metric_class

if TYPE_CHECKING:
    from evaluation.analysis.covariance import Interval

NOT_RUN = "not run"
#: The text of a rating that no judge gave.
NOT_JUDGED = "not judged"

#: Edits of a category, as the subject of a sentence.
EDITS = {
    "accessories": "Accessory edits",
    "appearance": "Edits of clothing, hair and face",
    "objects": "Object edits",
    "geometry": "Geometric edits",
    "light": "Edits of light, weather and season",
}


def own_value(value: float | None, metric: str) -> str:
    """A value on the metric's own scale, with its unit: "31.2 dB"."""
    if value is None:
        return "–"
    try:
        scale = metric_class(metric)
        digits, unit = scale.digits, scale.unit
    except MetricError:
        digits, unit = 3, ""
    return f"{value:.{digits}f} {unit}".rstrip()


def half_life(value: float | None, trips: int) -> str:
    """ "7.3", or "> 20" if it was not reached."""
    return f">\u00a0{trips}" if value is None else f"{value:.1f}"


def half_life_interval(low: float | None, high: float | None, trips: int) -> str:
    """ "6.1–8.8", "17.2 to > 20"; empty if neither bound was reached."""
    if low is None:
        return ""
    if high is None:
        return f"{low:.1f} to {half_life(None, trips)}"
    return f"{low:.1f}–{high:.1f}"


def in_trips(value: float | None, trips: int) -> str:
    """ "7.3 round trips", "more than 20 round trips"."""
    if value is None:
        return f"more than {trips} round trips"
    return f"{value:.1f} round trip{'' if f'{value:.1f}' == '1.0' else 's'}"


def count(number: int, one: str, many: str = "") -> str:
    """ "1 case", "300 cases"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float | None, digits: int = 0) -> str:
    """ "62 %"; "< 1 %" and "> 99 %" instead of a rounded 0 or 100."""
    if share is None:
        return "–"
    shown = f"{100 * share:.{digits}f}"
    if share > 0 and float(shown) == 0:
        return f"<\u00a0{10**-digits:g}\u00a0%"
    if share < 1 - 1e-9 and float(shown) == 100:
        return f">\u00a0{100 - 10**-digits:g}\u00a0%"
    return f"{shown}\u00a0%".replace("-", "−")


def interval(low: float | None, high: float | None, scale: float = 1, digits: int = 1) -> str:
    """ "55–69"; empty if no interval is known."""
    if low is None or high is None:
        return ""
    ends = [f"{scale * end:.{digits}f}" for end in (low, high)]
    return (" to " if "-" in "".join(ends) else "–").join(ends).replace("-", "−")


def difference(estimate: float, bounds: Interval | None) -> str:
    """ "+1.3 (0.4 to 2.2)"; the sign is always there."""
    around = bounds and interval(bounds.low, bounds.high).replace("–", " to ")
    return f"{estimate:+.1f}{f' ({around})' if around else ''}".replace("-", "−")


def kept(share: float, low: float | None = None, high: float | None = None) -> str:
    """ "keeps 62 % (55–69) of the image"."""
    if share <= 0:
        return "keeps nothing: no better than a blank card"
    around = interval(low, high, 100, 0)
    return f"keeps {percent(share)}{f' ({around})' if around else ''} of the image"


def share_kept(share: float) -> str:
    """ "62 % kept", below an image."""
    return f"{percent(share)} kept" if share > 0 else "nothing kept"


def after(number: int) -> str:
    """ "after 5 round trips"."""
    return f"after {count(number, 'round trip')}"


def after_trips(number: int) -> str:
    """ "after 5 trips", for narrow places."""
    return f"after {count(number, 'trip')}"


def usd(price: Decimal | float | None) -> str:
    """ "$0.039", with the digits that matter; "–" where no price is known."""
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
    """ "0.4 s", "12 s", "3.1 min"."""
    if value is None:
        return "–"
    if value >= 120:
        return f"{value / 60:.1f}\u00a0min"
    if value >= 10:
        return f"{value:.0f}\u00a0s"
    return f"{value:.1f}\u00a0s" if value >= 0.1 else f"{1000 * value:.0f}\u00a0ms"


def ranks(low: int | None, high: int | None) -> str:
    """The rank's interval: "1–3"; empty if it is a single rank or unknown."""
    return f"{low}–{high}" if low is not None and high is not None and low != high else ""


def metric_label(name: str) -> str:
    """ "LPIPS"."""
    try:
        return metric_class(name).label
    except MetricError:
        return name.replace("_", " ").upper()


def looks_at(name: str) -> str:
    """ "perceived quality"; empty for a metric that no longer exists."""
    try:
        return metric_class(name).looks_at
    except MetricError:
        return ""


def metric_choice(name: str) -> str:
    """ "LPIPS: perceived quality"."""
    what = looks_at(name)
    return f"{metric_label(name)}: {what}" if what else metric_label(name)


def edits(category: str) -> str:
    """ "Geometric edits"."""
    return EDITS.get(category) or f"{category.replace('-', ' ').capitalize()} edits"


def listed(names: Sequence[str], most: int = 3, of: int = 0) -> str:
    """ "A, B and C", "A, B, C and 4 more"; `of` is the total if not all are given."""
    shown, count = list(names[:most]), max(of, len(names))
    if count > most:
        return f"{', '.join(shown)} and {count - most} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""
