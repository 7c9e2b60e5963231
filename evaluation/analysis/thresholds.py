"""The thresholds: shares of an image that are left when the clock stops, in words."""

from __future__ import annotations

#: The threshold of every number that names no other.
DEFAULT_THRESHOLD = 0.5
#: The thresholds at which standings are computed; the default is one of them.
THRESHOLDS = (0.25, 0.5, 0.75, 0.9)

_LOST = {0.25: "three quarters", 0.5: "half", 0.75: "a quarter", 0.9: "a tenth"}


def lost(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Name the share lost when the clock stops: "half", "a quarter", "a tenth"."""
    return _LOST.get(threshold) or _percent(1 - threshold)


def is_lost(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the loss as a clause: "half is lost", "three quarters are lost"."""
    words = lost(threshold)
    return f"{words} {'are' if words.endswith('s') else 'is'} lost"


def left(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Name the share that is left then: "half", "three quarters"."""
    return _LOST.get(1 - threshold) or _percent(threshold)


def fraction(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the threshold as in formulas: "½"."""
    return {0.25: "¼", 0.5: "½", 0.75: "¾"}.get(threshold) or f"{threshold:g}"


def other_losses() -> str:
    """List the losses at the thresholds beside the default: "10 %, 25 % or 75 %"."""
    *first, last = (
        _percent(1 - n) for n in sorted(THRESHOLDS, reverse=True) if n != DEFAULT_THRESHOLD
    )
    return f"{', '.join(first)} or {last}"


def life(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the name of the time to a threshold: "Half-life", "Trips to 10 % lost"."""
    return "Half-life" if threshold == 0.5 else f"Trips to {_percent(1 - threshold)} lost"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"
