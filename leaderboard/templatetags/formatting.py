"""Template filters and tags for numbers, names, tables and links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from evaluation.analysis import thresholds
from leaderboard import formatting
from leaderboard.models import PeopleStanding, Run, Standing
from leaderboard.pages.strips import like_jpeg

if TYPE_CHECKING:
    from evaluation.analysis.comparison import Comparison, Difference

register = template.Library()
register.filter("percent", formatting.percent)
register.filter("usd", formatting.usd)
register.filter("seconds", formatting.seconds)
register.filter("half_life", formatting.half_life)
register.filter("in_trips", formatting.in_trips)
register.filter("metric_label", formatting.metric_label)
register.filter("looks_at", formatting.looks_at)
register.filter("metric_choice", formatting.metric_choice)
register.filter("like_jpeg", like_jpeg)
register.filter("named", thresholds.named)
register.filter("fraction", thresholds.fraction)
register.filter("life", thresholds.life)
register.filter("listed", formatting.listed)
register.filter("share_kept", formatting.share_kept)
register.filter("after_round_trips", formatting.after_round_trips)


@register.filter
def count(number: int, noun: str) -> str:
    """Return a count with its noun: {{ 3|count:"case" }} gives "3 cases"."""
    return formatting.count(number, noun)


@register.filter
def half_life_interval(standing: Standing | PeopleStanding, trips: int) -> str:
    """Return the interval of a standing's half-life; empty if it has none."""
    if not standing.has_interval:
        return ""
    return formatting.half_life_interval(standing.half_life_low, standing.half_life_high, trips)


@register.filter
def usable_interval(standing: Standing) -> str:
    return formatting.interval(standing.usable_trips_low, standing.usable_trips_high)


@register.filter
def people_interval(people: PeopleStanding) -> str:
    """Return the interval of the share of comparisons won, in percent."""
    return formatting.interval(people.share_low, people.share_high, 100, 0)


@register.filter
def rank_interval(standing: Standing) -> str:
    return formatting.ranks(standing.rank_low, standing.rank_high)


@register.filter
def difference(value: Difference) -> str:
    """Return a difference with its interval: "+1.3 (0.4 to 2.2)"."""
    return formatting.difference(value.estimate, value.interval)


@register.filter
def half_life_difference(comparison: Comparison, trips: int) -> str:
    """Return the difference of half-lives; a bound if one half-life was not reached."""
    first, second = comparison.first.half_life, comparison.second.half_life
    if first is None and second is None:
        return f"both >\u00a0{trips}"
    gap = (trips if first is None else first) - (trips if second is None else second)
    bound = "≥\u00a0" if first is None else "≤\u00a0" if second is None else ""
    return f"{bound}{formatting.difference(gap, None)}"


@register.filter
def pinned_metrics(run: Run) -> list[tuple[str, dict[str, str], str]]:
    """Return each metric's name, pinned version and weights, and the device that computed it."""
    scored = run.provenance.get("scoring", {}).get("metrics", {})

    def device(name: str) -> str:
        metric = scored.get(name, {})
        half_precision = metric.get("precision", "float32") != "float32"
        return (
            f"{metric.get('device', '')} in half precision"
            if half_precision
            else metric.get("device", "")
        )

    return [(name, pinned, device(name)) for name, pinned in run.metrics.items()]


@register.simple_tag(takes_context=True)
def nav_link(context: Context, name: str, label: str) -> SafeString:
    """Return a navigation link, marked as current on its page and on pages below it."""
    url, request = reverse(name), context.get("request")
    path = request.path if request else ""
    is_current = path == url or (url != "/" and path.startswith(url))
    return format_html(
        '<a href="{}"{}>{}</a>', url, mark_safe(' aria-current="page"') if is_current else "", label
    )


#: White space around rows and cells, which has no meaning.
AROUND_CELLS = re.compile(r"\s*(</?(?:table|caption|thead|tbody|tr|th|td)\b[^>]*>)\s*")


@register.simple_block_tag
def scroll_table(
    content: SafeString, label: str, classes: str = "", axis: Sequence[Any] = ()
) -> SafeString:
    """Return the table in a region that the keyboard can scroll.

    `axis` lists the ticks of the bars in the table.
    """
    steps = f"steps-{len(axis) - 1}" if axis else ""
    return format_html(
        '<div class="{}" tabindex="0" role="region" aria-label="{}">{}</div>',
        " ".join(filter(None, ("table", classes, steps))),
        label,
        # The template has already escaped the content; this only removes white space.
        mark_safe(AROUND_CELLS.sub(r"\1", content)),  # noqa: S308
    )
