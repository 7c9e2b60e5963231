"""Template tags for the rows of the board's table.

They are written in Python because a long board has hundreds of cells, and one template per cell
would take most of the time of rendering the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django import template
from django.urls import reverse
from django.utils.dateformat import format as date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from leaderboard import formatting
from leaderboard.board.breakdowns import Cell
from leaderboard.board.columns import Head
from leaderboard.board.row import BoardRow
from leaderboard.models import Standing
from leaderboard.pages.charts import half_life_bar, sparkline

register = template.Library()
NOTHING = SafeString("")
DAY = "j M y"
#: Note on the reference editor that does nothing.
DITHER = SafeString(
    " <small>Loses a little, because images are sent with faint noise (dither).</small>"
)


@register.simple_tag
def board_lines(rows: Sequence[BoardRow], heads: Sequence[Head]) -> SafeString:
    """Return the board's rows as HTML table rows."""
    return format_html_join("", "{}", ((_line(row, heads),) for row in rows))


def _line(row: BoardRow, heads: Sequence[Head]) -> SafeString:
    cells = [(CELLS.get(head.column.name, _plain_cell)(row, head),) for head in heads]
    return format_html(
        '<tr{}><td class="pick"><input type="checkbox" form="compare" name="models" value="{}" '
        'aria-label="Compare {}"></td>{}</tr>',
        NOTHING if row.standing else SafeString(' class="bare"'),
        row.model.slug,
        row.model.name,
        format_html_join("", "{}", cells),
    )


def _plain_cell(row: BoardRow, head: Head) -> SafeString:
    """Return the default cell, with the column's text."""
    text, css_class = head.column.cell(row)
    return format_html(
        '<td class="{}" data-label="{}">{}</td>', f"num fact {css_class}".strip(), head.label, text
    )


def _rank(row: BoardRow, head: Head | None = None) -> SafeString:
    standing = row.standing
    if row.group != "ranked" or standing is None or not standing.rank:
        return SafeString('<td class="num rank"></td>')
    possible = formatting.ranks(standing.rank_low, standing.rank_high)
    return format_html(
        '<td class="num rank"><b>{}</b> <span class="tier">{}</span>{}</td>',
        standing.rank,
        standing.tier or NOTHING,
        format_html("<small>{}</small>", possible) if possible else NOTHING,
    )


def _name(row: BoardRow, head: Head) -> SafeString:
    return format_html(
        '<th scope="row"><a href="{}">{}</a>{}</th>',
        reverse("model", args=[row.model.slug]),
        row.model.name,
        _under_name(row),
    )


def _under_name(row: BoardRow) -> SafeString:
    """Return the small print under a model's name: why the model has no rank, or its provider."""
    played = row.run.played
    if row.reason and not row.filters.suite.published_elsewhere:
        return format_html(
            ' <small class="tag warn"><a href="{}">{}</a></small> <small>{}</small>',
            row.run.get_absolute_url(),
            row.reason,
            played,
        )
    if row.group == "reference":
        note = DITHER if row.model.editor == "noop" else NOTHING
        return format_html(" <small>{}</small>{}", played, note)
    weights = {True: "open", False: "closed", None: "weights unknown"}[row.model.open_weights]
    words = " · ".join(filter(None, (row.provider, weights, played)))
    return format_html(" <small>{}</small> <small>{}</small>", words, row.contract_and_sizes)


def _half_life(row: BoardRow, head: Head) -> SafeString:
    return life_cell(row.standing, row.filters.suite.trips)


def _curve(row: BoardRow, head: Head) -> SafeString:
    curve = row.standing and sparkline(row.standing.curve, row.filters.suite.trips)
    return format_html('<td class="kept">{}</td>', curve or NOTHING)


def _time(row: BoardRow, head: Head) -> SafeString:
    """Return the cell of the median time, with the 95th percentile below."""
    times = row.run.progress
    median, p95 = times.median_seconds, times.p95_seconds
    below = "" if p95 is None else f"95\u00a0% within {formatting.seconds(p95)}"
    return format_html(
        '<td class="num fact time" data-label="{}">{} <small>{}</small></td>',
        head.label,
        formatting.seconds(median),
        below,
    )


def _date(row: BoardRow, head: Head) -> SafeString:
    """Return the cell of the run's end, with the end of the model's first run if earlier."""
    ended, added = (day and localtime(day) for day in (row.date, row.added))
    run = since = NOTHING
    if ended:
        run = format_html(
            '<time datetime="{}">{}</time>', f"{ended:%Y-%m-%d}", date_format(ended, DAY)
        )
    if added and (ended is None or added.date() != ended.date()):
        since = format_html("<small>since {}</small>", date_format(added, DAY))
    return format_html('<td class="num date">{}{}</td>', run, since)


def _people(row: BoardRow, head: Head) -> SafeString:
    people = row.people
    return (
        _share(row, head, people.share_low, people.share_high) if people else _plain_cell(row, head)
    )


def _edit_quality(row: BoardRow, head: Head) -> SafeString:
    quality = row.edit_quality
    return _share(row, head, quality.low, quality.high) if quality else _plain_cell(row, head)


def _share(row: BoardRow, head: Head, low: float | None, high: float | None) -> SafeString:
    """Return the cell of a share, with its interval below: "63 %", "55–70"."""
    return format_html(
        '<td class="num fact share" data-label="{}">{} <small>{}</small></td>',
        head.label,
        formatting.percent(head.column.value(row)),
        formatting.interval(low, high, 100, 0),
    )


#: Functions that render the cells of special columns, by column name.
CELLS: dict[str, Callable[[BoardRow, Head], SafeString]] = {
    "rank": _rank,
    "name": _name,
    "half_life": _half_life,
    "curve": _curve,
    "people": _people,
    "edit_quality": _edit_quality,
    "seconds": _time,
    "date": _date,
}


@register.simple_tag
def heat_cells(cells: Sequence[Cell], trips: int) -> SafeString:
    """Return the cells of a heat table's line, shaded, with the best cell marked."""
    return format_html_join("", "{}", ((_heat_cell(cell, trips),) for cell in cells))


def _heat_cell(cell: Cell, trips: int) -> SafeString:
    if cell.standing is None:
        return format_html('<td class="num muted">{}</td>', formatting.NOT_RUN)
    return format_html(
        '<td class="num h{}{}">{}</td>',
        cell.shade,
        " best" if cell.best else "",
        formatting.half_life(cell.standing.half_life, trips),
    )


@register.simple_tag
def rank_cell(row: BoardRow) -> SafeString:
    return _rank(row)


@register.simple_tag
def life_cell(standing: Standing | None, trips: int) -> SafeString:
    """Return the cell of a half-life with its interval, as text and as a bar."""
    if standing is None:
        return format_html('<td class="lives muted">{}</td>', formatting.NOT_RUN)
    return format_html(
        '<td class="lives"><div class="life"><b>{}</b> <small>{}</small>{}</div></td>',
        formatting.half_life(standing.half_life, trips),
        formatting.half_life_interval(standing.half_life_low, standing.half_life_high, trips)
        if standing.has_interval
        else "",
        half_life_bar(standing, trips),
    )
