"""Thresholds of retention below which an image counts as worn, damaged or unusable."""

from __future__ import annotations

#: The threshold of numbers that do not state another one.
DEFAULT_THRESHOLD = 0.5
#: The thresholds at which standings are computed; the default is one of them.
THRESHOLDS = (0.25, 0.5, 0.75)

#: Names in everyday words, meant for the headline; other metrics have the same thresholds.
NAMES = {0.25: "unusable", 0.5: "clearly damaged", 0.75: "slightly worn"}


def named(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the state of an image below the threshold: "clearly damaged"."""
    return NAMES.get(threshold) or f"below {threshold:.0%}".replace("%", "\u00a0%")


def state(retention: float) -> str:
    """Return the state of an image with this retention: "as new", "slightly worn"."""
    return next((NAMES[n] for n in sorted(NAMES) if retention < n), "as new")


def other_names() -> str:
    """List the names of the other thresholds: "slightly worn or unusable"."""
    *first, last = (named(n) for n in sorted(THRESHOLDS, reverse=True) if n != DEFAULT_THRESHOLD)
    return f"{', '.join(first)} or {last}"


def fraction(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the threshold as a fraction, for formulas: "½"."""
    return {0.25: "¼", 0.5: "½", 0.75: "¾"}.get(threshold) or f"{threshold:g}"


def life(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the label of the time to a threshold: "Half-life", "Trips to unusable"."""
    return "Half-life" if threshold == 0.5 else f"Trips to {named(threshold)}"
