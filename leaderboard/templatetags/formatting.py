"""leaderboard.formatting for templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template

from evaluation.analysis import levels
from leaderboard import formatting
from leaderboard.models import PeopleStanding, Standing

if TYPE_CHECKING:
    from evaluation.analysis.comparison import Difference

register = template.Library()
register.filter("percent", formatting.percent)
register.filter("usd", formatting.usd)
register.filter("seconds", formatting.seconds)
register.filter("half_life", formatting.half_life)
register.filter("in_trips", formatting.in_trips)
register.filter("metric_label", formatting.metric_label)
register.filter("lost", levels.lost)
register.filter("is_lost", levels.is_lost)
register.filter("left", levels.left)
register.filter("fraction", levels.fraction)
register.filter("life", levels.life)
register.filter("listed", formatting.listed)
register.filter("share_kept", formatting.share_kept)
register.filter("after_trips", formatting.after)


@register.filter
def of(number: int, one: str) -> str:
    """{{ 3|of:"case" }} gives "3 cases"."""
    return formatting.count(number, one)


@register.filter
def half_life_interval(standing: Standing | PeopleStanding, trips: int) -> str:
    """The interval of a standing's half-life; empty where none was computed."""
    if not standing.has_interval:
        return ""
    return formatting.half_life_interval(standing.half_life_low, standing.half_life_high, trips)


@register.filter
def usable_interval(standing: Standing) -> str:
    return formatting.interval(standing.usable_trips_low, standing.usable_trips_high)


@register.filter
def people_interval(people: PeopleStanding) -> str:
    """The interval of the share of pairs won, in percent."""
    return formatting.interval(people.share_low, people.share_high, 100, 0)


@register.filter
def rank_interval(standing: Standing) -> str:
    return formatting.ranks(standing.rank_low, standing.rank_high)


@register.filter
def difference(found: Difference) -> str:
    """{{ comparison.usable_trips|difference }} gives "+1.3 (0.4 to 2.2)"."""
    return formatting.difference(found.estimate, found.interval)
