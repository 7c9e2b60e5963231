"""Thresholds of retention below which an image counts as worn or damaged."""

from __future__ import annotations

#: Results for which no threshold is stated are computed at this threshold.
DEFAULT_THRESHOLD = 0.5
#: Standings are computed at these thresholds.
THRESHOLDS = (0.25, 0.5, 0.75)

#: Everyday names of the thresholds, chosen for the headline metric and used for every metric.
NAMES = {0.25: "unusable", 0.5: "clearly damaged", 0.75: "slightly worn"}


def named(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the name for an image below the threshold, such as "clearly damaged"."""
    return NAMES.get(threshold) or f"below {threshold:.0%}".replace("%", "\u00a0%")


def state(retention: float) -> str:
    """Return the name for an image with this retention, such as "as new" or "slightly worn"."""
    return next((NAMES[n] for n in sorted(NAMES) if retention < n), "as new")


def other_names() -> str:
    """Return the names of all thresholds except the default: "slightly worn or unusable"."""
    *first, last = (named(n) for n in sorted(THRESHOLDS, reverse=True) if n != DEFAULT_THRESHOLD)
    return f"{', '.join(first)} or {last}"


def fraction(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the threshold as a fraction, for formulas: "½"."""
    return {0.25: "¼", 0.5: "½", 0.75: "¾"}.get(threshold) or f"{threshold:g}"


def life(threshold: float = DEFAULT_THRESHOLD) -> str:
    """Return the label of the time to a threshold: "Half-life" or "Trips to unusable"."""
    return "Half-life" if threshold == 0.5 else f"Trips to {named(threshold)}"
