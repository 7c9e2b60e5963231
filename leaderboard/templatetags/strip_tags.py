"""Thumbnails and provenance for templates."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from leaderboard import formatting
from leaderboard.models import Run, StoredImage
from leaderboard.pages.strips import SHOWN_SIDE, like_jpeg, shown_size

register = template.Library()
GONE = SafeString('<span class="gone">no picture</span>')
register.filter("like_jpeg", like_jpeg)
register.filter("metric_choice", formatting.metric_choice)


@register.simple_tag
def thumb(
    picture: StoredImage | None,
    alt: str,
    shape: StoredImage | None = None,
    side: int = SHOWN_SIDE,
) -> SafeString:
    """A lazy thumbnail in the room that `shape` takes: the source's, so that strips line up."""
    width, height = shown_size(shape or picture, side)
    if picture is None:
        return GONE
    return format_html(
        '<img src="{}" alt="{}" width="{}" height="{}" loading="lazy" decoding="async">',
        picture.thumbnail_url,
        alt,
        width,
        height,
    )


@register.simple_tag
def framed(picture: StoredImage | None, alt: str, shape: StoredImage | None = None) -> SafeString:
    """A thumbnail that leads to the picture in full size."""
    small = thumb(picture, alt, shape)
    if picture is None:
        return small
    return format_html('<a href="{}">{}</a>', picture.copy_url, small)


@register.filter
def pinned_metrics(run: Run) -> list[tuple[str, dict[str, str], str]]:
    """Every metric as the run pinned it, and where it was computed."""
    scored = run.provenance.get("scoring", {}).get("metrics", {})

    def where(name: str) -> str:
        told = scored.get(name, {})
        half = told.get("precision", "float32") != "float32"
        return f"{told.get('device', '')} in half precision" if half else told.get("device", "")

    return [(name, pinned, where(name)) for name, pinned in run.metrics.items()]
