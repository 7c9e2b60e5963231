"""What is new, as a page and as an Atom feed, and the board as it was on another day."""

from __future__ import annotations

import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.feedgenerator import Atom1Feed
from django.views.decorators.http import require_safe

from evaluation.content.suites import find_suite
from evaluation.metrics import HEADLINE
from leaderboard.board import news
from leaderboard.board.rows import stamp, suites
from leaderboard.models import EditingModel, Suite
from leaderboard.page_cache import keep_page, not_kept
from leaderboard.text import absolute, plain_text
from leaderboard.views.crawlers import noindex_variants
from leaderboard.visitors import limited


@require_safe
@keep_page(stamp, ("suite",))
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    """The changes of the board, the newest first."""
    offered = _suites()
    asked = request.GET.get("suite", "")
    suite = find_suite(asked, offered)
    context = {
        "entries": news.news(suite=suite),
        "suites": offered,
        "suite": suite,
        "today": timezone.localdate(),
    }
    response = render(request, "leaderboard/news.html", context)
    return not_kept(response) if asked and suite is None else response


@require_safe
@keep_page(stamp, ("suite", "model"))
def feed(request: HttpRequest) -> HttpResponse:
    """The same for feed readers: of everything, of one suite or of one model."""
    asked, slug = request.GET.get("suite", ""), request.GET.get("model", "")
    suite = find_suite(asked, _suites()) if asked else None
    published = EditingModel.objects.filter(status=EditingModel.Status.PUBLISHED)
    model = published.filter(slug=slug).first() if slug else None
    if (asked and suite is None) or (slug and model is None):
        return HttpResponse("There is no such suite or model.\n", status=404)
    subject = " ".join(f": {one}" for one in (model, suite) if one)
    # Not the address as it was asked for: everybody gets the feed that one visitor had made.
    asked_for = {"suite": suite and suite.key, "model": model and model.slug}
    query = urlencode({name: value for name, value in asked_for.items() if value})
    found = Atom1Feed(
        title=plain_text(f"ConvergeBench{subject}"),
        link=absolute("/new/"),
        description="New models, runs, suites and ranks of the leaderboard of image editors.",
        feed_url=absolute(f"{reverse('feed')}{'?' if query else ''}{query}"),
        language="en",
    )
    for entry in news.news(suite=suite, model=model):
        # XML takes no control characters, and a name that came with a bundle may have some.
        found.add_item(
            title=plain_text(entry.title),
            link=absolute(entry.url),
            description=plain_text(entry.text),
            pubdate=entry.at,
            updateddate=entry.at,
            unique_id=absolute(f"/new/#{entry.key}"),
        )
    return HttpResponse(
        found.writeString("utf-8"), content_type="application/atom+xml; charset=utf-8"
    )


@require_safe
@noindex_variants
def then(request: HttpRequest) -> HttpResponse:
    """The board of a suite as it was on a day."""
    if too_many := limited(request, "board_then"):
        return too_many
    offered = _suites()
    asked, text = (request.GET.get(name, "") for name in ("suite", "date"))
    suite = find_suite(asked, offered) or next(iter(offered), None)
    day = _day(text)
    context: dict[str, Any] = {
        "suites": offered,
        "suite": suite,
        "day": day or timezone.localdate(),
        "remark": f"“{text[:20]}” is not a day of the form 2026-11-17." if text and not day else "",
        "today": timezone.localdate(),
        "headline": HEADLINE,
    }
    if suite:
        context["rows"] = news.board_on(suite, context["day"])
        context["first_day"] = news.first_day(suite)
    return render(request, "leaderboard/board_then.html", context)


def _suites() -> list[Suite]:
    return [suite for suite in suites() if not suite.published_elsewhere]


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if "2000" < text < "2999" else None
    except ValueError:
        return None
