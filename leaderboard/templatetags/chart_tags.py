"""Charts and small inline drawings for templates."""

from __future__ import annotations

from typing import Any

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.html import json_script
from django.utils.safestring import SafeString

from leaderboard import sparks
from leaderboard.charts import Chart

register = template.Library()


class Compact(DjangoJSONEncoder):
    """JSON without the spaces: a third fewer bytes for a figure."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "separators": (",", ":")})


@register.simple_tag
def figure_json(chart: Chart) -> SafeString:
    """The chart's figure in a script element that runs nothing; chart.js reads it."""
    return json_script(chart.figure, f"{chart.id}-figure", Compact)


register.simple_tag(sparks.half_life_bar)
register.simple_tag(sparks.sparkline)
