"""Template tags for charts, thumbnails and small inline drawings."""

from __future__ import annotations

from typing import Any

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.html import format_html, json_script
from django.utils.safestring import SafeString

from leaderboard.models import StoredImage
from leaderboard.pages import charts, model_charts
from leaderboard.pages.charts import Chart, LegendItem
from leaderboard.pages.strips import SHOWN_SIDE, shown_size

register = template.Library()


class CompactEncoder(DjangoJSONEncoder):
    """JSON without spaces or ASCII escapes, which saves a third of the bytes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "separators": (",", ":"), "ensure_ascii": False})


@register.inclusion_tag("leaderboard/_chart.html")
def chart(name: str, *arguments: Any) -> dict[str, Chart | None]:
    """Draw a chart of a model's page with the function of this name in `model_charts`."""
    return {"chart": getattr(model_charts, name)(*arguments)}


@register.simple_tag
def figure_json(chart: Chart) -> SafeString:
    """Return the chart's figure as an inert script element for chart.js."""
    return json_script(chart.figure, f"{chart.id}-figure", CompactEncoder)


@register.filter
def legend(chart: Chart) -> list[LegendItem]:
    return charts.legend(chart.figure)


@register.simple_tag
def swatch(item: LegendItem) -> SafeString:
    """Return a sample of a chart's line with its marker, for the legend."""
    return format_html(
        '<svg viewBox="0 0 30 10" width="30" height="10" aria-hidden="true">'
        '<path d="M0 5H30" stroke="{0}" stroke-width="2" stroke-dasharray="{1}"/>'
        '<path d="{2}" fill="{0}"/></svg>',
        item.colour,
        DASHES.get(item.dash, ""),
        MARKERS.get(item.marker, ""),
    )


DASHES = {"dash": "6 4", "dot": "2 3", "dashdot": "6 3 2 3", "longdash": "9 4"}
MARKERS = {
    # The inner outline of an open marker has the opposite direction, which leaves a hole.
    "circle-open": "M15 1a4 4 0 1 0 .01 0zM15 2.8a2.2 2.2 0 1 1-.01 0z",
    "square-open": "M11.5 1.5v7h7v-7zM13 3h4v4h-4z",
    "diamond-open": "M15 .5l-4.5 4.5 4.5 4.5 4.5-4.5zM15 2.8l2.2 2.2-2.2 2.2-2.2-2.2z",
    "triangle-up-open": "M15 .5l-5 8.5h10zM15 3.6l2.3 4h-4.6z",
    "circle": "M15 1.5a3.5 3.5 0 1 0 .01 0z",
    "square": "M12 2h6v6h-6z",
    "diamond": "M15 1l4 4-4 4-4-4z",
    "triangle-up": "M15 1l4 7h-8z",
    "triangle-down": "M15 9l4-7h-8z",
    "x": "M11 2.5L12.5 1 15 3.5 17.5 1 19 2.5 16.5 5 19 7.5 17.5 9 15 6.5 12.5 9 11 7.5 13.5 5z",
    "cross": "M14 1h2v3h3v2h-3v3h-2V6h-3V4h3z",
}


register.simple_tag(charts.half_life_bar)
register.simple_tag(charts.sparkline)
register.simple_tag(charts.difference_bar)


NO_IMAGE = SafeString('<span class="gone">no image</span>')


@register.simple_tag
def thumb(
    image: StoredImage | None,
    alt: str,
    shape: StoredImage | None = None,
    side: int = SHOWN_SIDE,
) -> SafeString:
    """Return a lazy thumbnail, displayed at the size of `shape` so that strips line up."""
    width, height = shown_size(shape or image, side)
    if image is None:
        return NO_IMAGE
    return format_html(
        '<img src="{}" alt="{}" width="{}" height="{}" loading="lazy" decoding="async">',
        image.thumbnail_url,
        alt,
        width,
        height,
    )


@register.simple_tag
def framed(image: StoredImage | None, alt: str, shape: StoredImage | None = None) -> SafeString:
    """Return a thumbnail that links to the full-size image."""
    small = thumb(image, alt, shape)
    if image is None:
        return small
    return format_html('<a href="{}">{}</a>', image.copy_url, small)
