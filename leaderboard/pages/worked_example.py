"""The methodology page's worked example: six invented chains, put through the real code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from evaluation.analysis.events import ChainResult, Event, event
from evaluation.analysis.half_life import summarise
from evaluation.analysis.levels import DEFAULT_LEVEL, is_lost
from leaderboard import formatting

TRIPS = 10
#: Drawn on a plane of this size: trips to the right, survival upwards.
PLANE = (400, 120)

_STORIES = {
    "A slow decline": ("completed", [0.93, 0.86, 0.78, 0.71, 0.63, 0.56, 0.47, 0.41, 0.36, 0.30]),
    "A fast decline": ("completed", [0.74, 0.52, 0.38, 0.29, 0.22, 0.17, 0.13, 0.10, 0.08, 0.06]),
    "It hardly fades": ("completed", [0.97, 0.95, 0.93, 0.91, 0.90, 0.88, 0.87, 0.86, 0.85, 0.84]),
    "It falls and comes back": (
        "completed",
        [0.81, 0.66, 0.55, 0.44, 0.53, 0.58, 0.52, 0.47, 0.40, 0.35],
    ),
    "It refuses on trip 4": ("refused", [0.90, 0.83, 0.77]),
    "It does nothing": ("completed", [1.0] * TRIPS),
}


@dataclass(frozen=True)
class Line:
    """One chain: what was kept, and when it stopped being usable."""

    story: str
    kept: tuple[str, ...]
    event: Event
    why: str


@dataclass(frozen=True)
class WorkedExample:
    lines: tuple[Line, ...]
    half_life: str
    usable_trips: str
    path: str


@cache
def worked_example() -> WorkedExample:
    chains = [_chain(story, place) for place, story in enumerate(_STORIES)]
    lines = []
    for story, chain in zip(_STORIES, chains, strict=True):
        found = event(chain, TRIPS, DEFAULT_LEVEL)
        kept = tuple(formatting.percent(q) for q in chain.retention)
        lines.append(Line(story, kept, found, _WHY[found.cause]))
    summary = summarise(chains, TRIPS)
    return WorkedExample(
        tuple(lines),
        formatting.half_life(summary.half_life, TRIPS),
        f"{summary.usable_trips:.1f}",
        _steps(sorted((line.event.time, line.event.cause is not None) for line in lines)),
    )


_WHY = {
    "whole": is_lost(),
    "refused": "it refused",
    "not_made": "the edit was not made",
    None: "never: counted as more than 10",
}


def _chain(story: str, place: int) -> ChainResult:
    outcome, kept = _STORIES[story]
    seen = (story != "It does nothing",) * len(kept)
    return ChainResult(
        picture=f"picture-{place}",
        pair="example",
        category="accessories",
        kind="face",
        repeat=0,
        retention=tuple(kept),
        outcome=outcome,
        change_seen=seen,
    )


def _steps(times: list[tuple[float, bool]]) -> str:
    """The survival curve as an SVG path."""
    width, height = PLANE
    alive, path = 1.0, "M0 0"
    for time, ended in times:
        if ended:
            alive -= 1 / len(times)
            path += f"H{width * time / TRIPS:.0f}V{height * (1 - alive):.0f}"
    return f"{path}H{width}"
