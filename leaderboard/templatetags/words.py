"""leaderboard.wording for templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template

from leaderboard import wording
from leaderboard.models import Standing

if TYPE_CHECKING:
    from evaluation.comparison import Difference

register = template.Library()
register.filter("percent", wording.percent)
register.filter("usd", wording.usd)
register.filter("seconds", wording.seconds)
register.filter("half_life", wording.half_life)
register.filter("in_trips", wording.in_trips)
register.filter("metric_label", wording.metric_label)
register.filter("lost", wording.lost)
register.filter("life", wording.life)
register.filter("listed", wording.listed)
register.filter("share_kept", wording.share_kept)
register.filter("after_trips", wording.after)


@register.filter
def of(number: int, one: str) -> str:
    """{{ 3|of:"case" }} gives "3 cases"."""
    return wording.count(number, one)


@register.filter
def half_life_interval(standing: Standing, trips: int) -> str:
    """The interval of a standing's half-life; empty where none was computed."""
    if not standing.has_interval:
        return ""
    return wording.half_life_interval(standing.half_life_low, standing.half_life_high, trips)


@register.filter
def usable_interval(standing: Standing) -> str:
    return wording.interval(standing.usable_trips_low, standing.usable_trips_high)


@register.filter
def rank_interval(standing: Standing) -> str:
    return wording.ranks(standing.rank_low, standing.rank_high)


@register.filter
def difference(found: Difference) -> str:
    """{{ comparison.usable_trips|difference }} gives "+1.3 (0.4 to 2.2)"."""
    return wording.difference(found.estimate, found.interval)
