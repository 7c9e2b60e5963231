"""Preview images (1200 x 630) for shared links to the board, a model, a case or a comparison.

They look the same on every machine, because their font is part of the project. It is DejaVu Sans,
reduced to Latin, Greek, Cyrillic and common symbols.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe
from PIL import Image, ImageDraw, ImageFont, ImageOps

from evaluation.analysis import thresholds
from evaluation.images import ImageError
from leaderboard import formatting
from leaderboard.board.query import PARAMETERS, BoardQuery
from leaderboard.board.row import BoardFilters, BoardRow
from leaderboard.board.rows import RANKED, UNRANKED, stamp
from leaderboard.models import Case, Chain, EditingModel, Run, StoredImage, Trip
from leaderboard.page_cache import cached_page, uncached
from leaderboard.pages.charts import axis_ticks
from leaderboard.pages.model_page import RunResults, lifetime_sentence
from leaderboard.views import compare as compare_page
from leaderboard.views.models import by_suite, main_run, runs_of
from leaderboard.visitors import limited

WIDTH, HEIGHT, MARGIN = 1200, 630, 64
ROWS = 6
#: Cards are drawn larger and reduced, for smooth edges and letters.
SCALE = 2
GROUND, PANEL, INK, QUIET, LINE = "#12343b", "#173f47", "#ffffff", "#a9c4c8", "#2c5a63"
BAR, WHISKER = "#e8b04b", "#ffffff"
NO_MODEL = "No model is ranked yet: these reference editors are a self-test."


FONT = Path(__file__).parents[1] / "fonts" / "DejaVuSans.ttf"


@lru_cache(maxsize=32)
def font_of(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FONT, size * SCALE)


def caption(subject: str, dates: Sequence[datetime | None]) -> str:
    """Return the bottom line: subject, date of the newest result, and host of the site."""
    newest = max((day for day in dates if day), default=None)
    dated = f"{newest.day} {newest:%B %Y}" if newest else ""
    return " · ".join(filter(None, (subject, dated, urlsplit(settings.SITE_URL).netloc)))


def board_card(rows: Sequence[BoardRow], filters: BoardFilters | None) -> bytes:
    """Return the board's card as a PNG: its first rows, or else what the board measures."""
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), GROUND)
    pen = Pen(ImageDraw.Draw(image))
    pen.text(MARGIN, 52, "ConvergeBench", 26, BAR)
    pen.text(MARGIN, 84, "How many round trips does an image last?", 42)
    shown = [row for row in rows if row.standing][:ROWS]
    if filters and shown:
        if not any(row.group == RANKED for row in shown):
            pen.text(MARGIN, 144, NO_MODEL, 26, QUIET)
        _bars(pen, shown, filters.suite.trips)
        life = thresholds.life(filters.threshold).lower()
        subject = f"{filters.suite}, {life} by {formatting.metric_label(filters.metric)}"
        if any(row.group == RANKED for row in shown):
            subject += ", ranks by usable trips"
        foot = caption(subject, [row.date for row in shown])
        pen.text(MARGIN, HEIGHT - 50, pen.truncated(foot, 20, WIDTH - 2 * MARGIN), 20, QUIET)
    else:
        pen.text(MARGIN, 300, "Edit an image, undo the edit, again and again:", 30, QUIET)
        pen.text(
            MARGIN,
            344,
            f"a leaderboard of image-editing models by {thresholds.life().lower()}.",
            30,
            QUIET,
        )
    return flat_png(image)


def flat_png(image: Image.Image, *, photographs: bool = False) -> bytes:
    """Return the drawing as a PNG of the final size."""
    data = io.BytesIO()
    small = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    # With a palette the file takes a quarter of the bytes; drawings have few colours.
    small = small.quantize(256) if photographs else small.quantize(96, dither=Image.Dither.NONE)
    small.save(data, "PNG", optimize=True)
    return data.getvalue()


class Pen:
    """Draws on the enlarged image; positions and sizes are in pixels of the final image."""

    def __init__(self, draw: ImageDraw.ImageDraw) -> None:
        self.draw = draw

    def text(
        self, x: float, y: float, text: str, size: int, colour: str = INK, anchor: str = "la"
    ) -> None:
        position = (x * SCALE, y * SCALE)
        self.draw.text(position, text, fill=colour, font=font_of(size), anchor=anchor)

    def truncated(self, text: str, size: int, width: float) -> str:
        """Return the text, truncated if it is wider than `width`."""
        font = font_of(size)
        if self.draw.textlength(text, font) <= width * SCALE:
            return text
        while text and self.draw.textlength(f"{text}…", font) > width * SCALE:
            text = text[:-1]
        return f"{text.rstrip()}…"

    def wrapped(self, text: str, size: int, width: float, lines: int) -> list[str]:
        """Split the text into at most `lines` lines of this width; the last may be truncated."""
        font = font_of(size)
        rows: list[str] = []
        words = text.replace("\u00a0", " ").split()
        while words and len(rows) < lines:
            line = [words.pop(0)]
            while (
                words and self.draw.textlength(" ".join([*line, words[0]]), font) <= width * SCALE
            ):
                line.append(words.pop(0))
            rows.append(" ".join([*line, *words] if len(rows) == lines - 1 else line))
        return [self.truncated(line, size, width) for line in rows]

    def box(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        self.draw.rectangle(
            (left * SCALE, top * SCALE, max(left + 1, right) * SCALE, bottom * SCALE), fill=colour
        )


def _bars(pen: Pen, rows: Sequence[BoardRow], trips: int) -> None:
    left, right, top, step = 480, WIDTH - MARGIN - 90, 232, 54

    def position(value: float | None) -> float:
        return left + (right - left) * (1 if value is None else min(value, trips) / trips)

    for tick in axis_ticks(trips):
        pen.text(position(tick), top - 26, str(tick), 18, QUIET, "ma")
    for index, row in enumerate(rows):
        standing = row.standing
        if standing is None:
            continue
        y = top + step * index
        rank = str(standing.rank) if row.group == "ranked" and standing.rank else ""
        pen.text(MARGIN, y + 4, rank, 26, BAR)
        pen.text(MARGIN + 48, y + 4, pen.truncated(row.model.name, 26, left - MARGIN - 72), 26)
        pen.box(left, y + 2, right, y + 36, PANEL)
        pen.box(left, y + 2, position(standing.half_life), y + 36, BAR)
        if standing.has_interval:
            pen.box(
                position(standing.half_life_low),
                y + 18,
                position(standing.half_life_high),
                y + 20,
                WHISKER,
            )
        words = formatting.half_life(standing.half_life, trips).replace("\u00a0", " ")
        pen.text(right + 16, y + 4, words, 26)


#: The longer side of an image on a card.
SIDE = 200


def card(
    name: str,
    finding: str,
    about: str,
    curves: Sequence[tuple[str, Sequence[float | None]]] = (),
    images: Sequence[tuple[Image.Image, str]] = (),
) -> bytes:
    """Return a card as a PNG: a name, a finding, curves or images, and a caption."""
    canvas = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), GROUND)
    pen = Pen(ImageDraw.Draw(canvas))
    pen.text(MARGIN, 46, "ConvergeBench", 26, BAR)
    pen.text(MARGIN, 84, pen.truncated(name, 36, WIDTH - 2 * MARGIN), 36, QUIET)
    for index, line in enumerate(pen.wrapped(finding, 38, WIDTH - 2 * MARGIN, 4)):
        pen.text(MARGIN, 138 + 50 * index, line, 38, INK)
    for index, (shown, label) in enumerate(images[:5]):
        left = MARGIN + (SIDE + 16) * index
        small = ImageOps.contain(shown.convert("RGB"), (SIDE * SCALE, SIDE * SCALE))
        canvas.paste(small, (left * SCALE, 330 * SCALE))
        pen.text(left, 338 + small.height // SCALE, pen.truncated(label, 20, SIDE), 20, QUIET)
    if not images:
        _draw_curves(pen, [(name, curve) for name, curve in curves if len(curve) > 1])
    pen.text(MARGIN, HEIGHT - 40, pen.truncated(about, 20, WIDTH - 2 * MARGIN), 20, QUIET)
    return flat_png(canvas, photographs=bool(images))


def read_thumbnail(stored: StoredImage | None) -> Image.Image | None:
    """Return an image's thumbnail, or None if it cannot be read from storage."""
    try:
        return stored.read_thumbnail() if stored else None
    except (FileNotFoundError, ImageError):
        return None


def _draw_curves(pen: Pen, curves: Sequence[tuple[str, Sequence[float | None]]]) -> None:
    """Draw retention over the trips, with axes and names; the first curve is highlighted."""
    if not curves:
        return
    left, right, top, bottom = MARGIN + 76, WIDTH - MARGIN - 220, 350, HEIGHT - 84
    pen.box(left, top, right, bottom, PANEL)
    for share in (0, 0.5, 1):
        y = bottom - (bottom - top) * share
        pen.box(left, y, right, y + 1, LINE)
        pen.text(left - 10, y, formatting.percent(share), 18, QUIET, "rm")
    last = max(len(curve) for _, curve in curves) - 1
    for tick in axis_ticks(last):
        x = left + (right - left) * tick / last
        if tick == last:
            pen.text(right, bottom + 6, formatting.count(tick, "round trip"), 18, QUIET, "ra")
        else:
            pen.text(x, bottom + 6, str(tick), 18, QUIET, "ma")
    ends = []
    for index, (name, curve) in reversed(list(enumerate(curves))):
        points = [
            (
                (left + (right - left) * number / last) * SCALE,
                (bottom - (bottom - top) * min(1.0, max(0.0, share))) * SCALE,
            )
            for number, share in enumerate(curve)
            if share is not None
        ]
        if len(points) > 1:
            colour = QUIET if index else BAR
            pen.draw.line(points, fill=colour, width=(3 if index else 5) * SCALE)
            ends.append((points[-1][1] / SCALE, name, colour))
    next_free = top - 12.0
    for y, name, colour in sorted(ends):
        y = max(y, next_free)
        next_free = y + 24
        pen.text(
            right + 12, y, pen.truncated(name, 18, WIDTH - MARGIN - right + 20), 18, colour, "lm"
        )


@require_safe
@cached_page(stamp, PARAMETERS)
def board(request: HttpRequest) -> HttpResponse:
    """Serve the card of the board; takes the board's query parameters."""
    query = BoardQuery.parse(request.GET)
    if query and query.no_such_suite:
        raise Http404("There is no such suite.")
    rows = query.rows() if query else []
    ranked = [row for row in rows if row.group == RANKED]
    shown = ranked or [row for row in rows if row.group != UNRANKED]
    image = board_card(shown, query.filters if query else None)
    response = HttpResponse(image, content_type="image/png")
    return response if not query or query.is_cacheable else uncached(response)


@require_safe
@cached_page(stamp, ("suite",))
def model(request: HttpRequest, slug: str) -> HttpResponse:
    """Serve the card of a model: its finding and its curve."""
    models = EditingModel.objects.defer("options", "api_key")
    editing_model = get_object_or_404(models, slug=slug, status=EditingModel.Status.PUBLISHED)
    by_key = by_suite(runs_of(editing_model, AnonymousUser()))
    suite_key = request.GET.get("suite", "")
    run = by_key.get(suite_key) or main_run(by_key)
    name = _labelled(editing_model)
    finding, about = "How many round trips does an image last?", caption("Not measured yet", [])
    curve: Sequence[float | None] = ()
    results = RunResults.for_run(run) if run else None
    if run and results:
        standing = results.standing
        trips = run.suite.trips
        life = formatting.half_life(standing.half_life, trips)
        rank = f"Rank {standing.rank}, half-life {life}. " if standing.rank else ""
        finding = f"{rank}{lifetime_sentence(results)}"
        subject = f"{run.suite}, measured by {formatting.metric_label(standing.metric.name)}"
        about = caption(subject, [run.finished_at])
        curve = standing.curve.get("mean", ())
    response = _png(card(name, finding, about, [(editing_model.name, curve)]))
    return uncached(response) if suite_key not in ("", *by_key) else response


@require_safe
@cached_page(stamp)
def case(request: HttpRequest, case_id: int) -> HttpResponse:
    """Serve the card of a case: its source, and the last images of its best and worst models."""
    cases = Case.objects.filter(suite__sealed=False).select_related("image__stored", "suite")
    shown_case = get_object_or_404(cases.defer("suite__definition"), pk=case_id)
    chains = Chain.objects.filter(
        case=shown_case, repeat=0, run__in=Run.objects.on_the_board(), usable_trips__isnull=False
    ).select_related("run__editing_model")
    ordered = list(chains.defer("run__provenance").order_by("-usable_trips", "-auc", "pk"))
    ranked = [c for c in ordered if not c.run.editing_model.is_reference] or ordered
    ends = list(dict.fromkeys([ranked[0], ranked[-1]])) if ranked else []
    last = {
        trip.chain_id: trip
        for trip in Trip.objects.filter(chain__in=ends, restored__isnull=False)
        .select_related("restored")
        .defer("evidence")
        .order_by("number")
    }
    images = [(read_thumbnail(shown_case.image.stored), "Source")]
    for chain in ends:
        if trip := last.get(chain.pk):
            label = f"{_labelled(chain.run.editing_model)}, trip {trip.number}"
            images.append((read_thumbnail(trip.restored), label))
    finding = f"“{shown_case.forward}”, and back."
    if ends and not ends[0].run.editing_model.is_reference:
        usable = ends[0].usable_trips or 0.0
        trips = formatting.count(shown_case.suite.trips, "round trip")
        finding += f" {ends[0].run.editing_model.name} keeps the image for {usable:.1f} of {trips}."
    shown = [(image, label) for image, label in images if image]
    about = caption(str(shown_case.suite), [chain.run.finished_at for chain in ends])
    return _png(card(str(shown_case), finding, about, images=shown))


def _labelled(model: EditingModel) -> str:
    """Return the model's name, marked if it is a reference editor."""
    return f"{model.name} (reference editor)" if model.is_reference else model.name


@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Serve the card of a comparison: its finding and the curves."""
    if too_many := limited(request, "compare_card"):
        return too_many
    query = BoardQuery.parse(request.GET)
    if query is None or query.no_such_suite:
        raise Http404("There is no such suite.")
    requested = request.GET.get("models", "").split(",")[: compare_page.MAX_MODELS]
    by_slug = {row.model.slug: row for row in query.rows() if row.standing}
    rows = [by_slug[slug] for slug in dict.fromkeys(requested) if slug in by_slug]
    if len(rows) < 2:
        raise Http404("A comparison needs two models with results.")
    content = compare_page.page(query, rows, "")
    ordered = sorted(rows, key=lambda row: row is not content["leader"])
    names = formatting.listed([_labelled(row.model) for row in ordered], compare_page.MAX_MODELS)
    curves = [
        (row.model.name, row.standing.curve.get("mean", ())) for row in ordered if row.standing
    ]
    label = formatting.metric_label(query.filters.metric)
    about = caption(f"{query.filters.suite}, measured by {label}", [row.date for row in ordered])
    # Reference editors are shown for comparison: a card never names one as the winner.
    headline = "" if content["leader"].model.is_reference else content["headline"]
    response = _png(card(names, headline, about, curves))
    response["Cache-Control"] = "public, max-age=3600"
    return response


def _png(data: bytes) -> HttpResponse:
    return HttpResponse(data, content_type="image/png")
