"""The board as a CSV table, a citation and a badge."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, life, named
from evaluation.metrics import HEADLINE
from leaderboard import formatting
from leaderboard.board import columns
from leaderboard.board.row import BoardFilters, BoardRow
from leaderboard.models import Standing
from leaderboard.text import absolute, csv_lines

AUTHOR = "The ConvergeBench contributors"
TITLE = "ConvergeBench: how many round trips does an image last?"


def board_csv(rows: Sequence[BoardRow]) -> str:
    """Return the board as CSV: "" for a metric not run, "> N" for a half-life above N trips."""
    head = [column.file_name for column in columns.COLUMNS]
    cells = ([column.csv_value(row) for column in columns.COLUMNS] for row in rows)
    return "".join(csv_lines([head, *cells]))


def bibtex(filters: BoardFilters) -> str:
    """Return a BibTeX citation: suite, version, hash, date and permalink."""
    suite, today = filters.suite, timezone.localdate()
    url = dated_link(filters)
    return (
        f"@misc{{convergebench-{suite.key}-{today:%Y%m%d},\n"
        f"  title        = {{{TITLE}}},\n"
        f"  author       = {{{{{AUTHOR}}}}},\n"
        f"  year         = {{{today:%Y}}},\n"
        f"  howpublished = {{\\url{{{url}}}}},\n"
        f"  note         = {{Suite {suite.slug}, version {suite.version}, content hash "
        f"{suite.content_hash[:12]}; {_metric_and_threshold(filters)}; "
        f"accessed {today:%Y-%m-%d}}}\n"
        "}\n"
    )


def citation(filters: BoardFilters) -> str:
    """Return the citation as a line of text with today's date."""
    suite = filters.suite
    return (
        f"{AUTHOR}. {TITLE} {suite} (content hash {suite.content_hash[:12]}), "
        f"{_metric_and_threshold(filters)}, {timezone.localdate():%-d %B %Y}. {dated_link(filters)}"
    )


def _metric_and_threshold(filters: BoardFilters) -> str:
    label = formatting.metric_label(filters.metric)
    until = named(filters.threshold)
    return f"{label} until {until} (threshold {filters.threshold:g})"


def dated_link(filters: BoardFilters) -> str:
    """Return a URL that shows today's board on later days too.

    Past boards are stored only for the headline metric, the default threshold and without
    filters. For other choices, the URL shows the board of the day on which it is opened.
    """
    if (
        filters.metric != HEADLINE
        or filters.threshold != DEFAULT_THRESHOLD
        or filters.has_model_filters
        or filters.ranks_here
    ):
        return absolute(f"/?{filters.query()}")
    day = {"suite": filters.suite.key, "date": timezone.localdate().isoformat()}
    return absolute(f"{reverse('board_then')}?{urlencode(day)}")


def badge(standing: Standing | None) -> str:
    """Return an SVG badge with half-life and rank for a model's README."""
    label = "ConvergeBench"
    if standing is None:
        text, colour = "not measured", "#6b7477"
    else:
        half_life = formatting.half_life(standing.half_life, standing.run.suite.trips)
        rank = f", rank {standing.rank}" if standing.rank else ""
        text, colour = f"{life(standing.threshold).lower()} {half_life} trips{rank}", "#0d5c69"
    left, right = 8 + 6.6 * len(label), 12 + 6.3 * len(text)
    width = left + right + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="20" role="img" '
        f'aria-label="{escape(f"{label}: {text}")}"><title>{escape(f"{label}: {text}")}</title>'
        f'<rect width="{width:.0f}" height="20" rx="4" fill="#2b3437"/>'
        f'<path d="M{left:.0f} 0h{right + 4:.0f}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-{right + 4:.0f}z" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="7" y="14" textLength="{left - 12:.0f}">{label}</text>'
        f'<text x="{left + 6:.0f}" y="14" textLength="{right - 6:.0f}">{escape(text)}</text></g></svg>'
    )
