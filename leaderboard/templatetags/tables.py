"""Tables that scroll sideways where they do not fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()
#: White space around rows and cells says nothing; inside a cell it parts words.
AROUND = re.compile(r"\s*(</?(?:table|caption|thead|tbody|tr|th|td)\b[^>]*>)\s*")


@register.simple_block_tag
def scroll_table(
    content: SafeString, label: str, classes: str = "", axis: Sequence[Any] = ()
) -> SafeString:
    """The table in a region that a keyboard can reach and scroll; `axis` = ticks of its bars."""
    steps = f"steps-{len(axis) - 1}" if axis else ""
    return format_html(
        '<div class="{}" tabindex="0" role="region" aria-label="{}">{}</div>',
        " ".join(filter(None, ("table", classes, steps))),
        label,
        # What the block holds is escaped already; this only takes white space away.
        mark_safe(AROUND.sub(r"\1", content)),  # noqa: S308
    )
