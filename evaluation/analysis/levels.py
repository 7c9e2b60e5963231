"""The levels: shares of an image that are left when the clock stops, in words."""

from __future__ import annotations

#: The level of every number that names no other.
DEFAULT_LEVEL = 0.5
#: The levels at which standings are computed; the default is one of them.
LEVELS = (0.25, 0.5, 0.75, 0.9)

_LOST = {0.25: "three quarters", 0.5: "half", 0.75: "a quarter", 0.9: "a tenth"}


def lost(level: float = DEFAULT_LEVEL) -> str:
    """Name the share lost when the clock stops: "half", "a quarter", "a tenth"."""
    return _LOST.get(level) or _percent(1 - level)


def is_lost(level: float = DEFAULT_LEVEL) -> str:
    """Return the loss as a clause: "half is lost", "three quarters are lost"."""
    words = lost(level)
    return f"{words} {'are' if words.endswith('s') else 'is'} lost"


def left(level: float = DEFAULT_LEVEL) -> str:
    """Name the share that is left then: "half", "three quarters"."""
    return _LOST.get(1 - level) or _percent(level)


def fraction(level: float = DEFAULT_LEVEL) -> str:
    """Return the level as in formulas: "½"."""
    return {0.25: "¼", 0.5: "½", 0.75: "¾"}.get(level) or f"{level:g}"


def other_losses() -> str:
    """List the losses at the levels beside the default: "10 %, 25 % or 75 %"."""
    *first, last = (_percent(1 - n) for n in sorted(LEVELS, reverse=True) if n != DEFAULT_LEVEL)
    return f"{', '.join(first)} or {last}"


def life(level: float = DEFAULT_LEVEL) -> str:
    """Return the name of the time to a level: "Half-life", "Trips to 10 % lost"."""
    return "Half-life" if level == 0.5 else f"Trips to {_percent(1 - level)} lost"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"
