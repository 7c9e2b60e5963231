"""Blind votes: ten questions, then the names; and the agreement of metrics.

Until a session is finished, no response reveals which model made an image: addresses contain
only tickets, and images are encoded again (people.ballots).
"""

from __future__ import annotations

import json
import re
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from evaluation.analysis import votes as rule
from evaluation.images import ImageError
from leaderboard.board import rows
from leaderboard.models import PeopleReport, Question, Use, Vote, Voter
from leaderboard.models.votes import Kind
from leaderboard.page_cache import cached_page
from leaderboard.pages import people
from leaderboard.people import ballots
from leaderboard.views.site import noindex, noindex_variants
from leaderboard.visitors import client_network, wait

NOTHING = "There are no questions at the moment. Please come back when more runs have ended."
#: Size limit of a request: a ticket, an answer and viewing data.
LONGEST_BODY = 2_000
TICKET = re.compile(r"[A-Za-z0-9_-]{22}")


@never_cache
@require_safe
@noindex_variants
def index(request: HttpRequest) -> HttpResponse:
    """Show the question and a button to begin; a script does the rest."""
    kind = Kind.USABLE if request.GET.get("mode") == Kind.USABLE else Kind.PAIR
    context = {
        "kind": kind,
        "length": ballots.LENGTH,
        "begin": reverse("vote_session"),
        "there_is_something": Question.objects.open().filter(kind=kind).exists(),
    }
    return render(request, "leaderboard/vote.html", context)


@never_cache
@require_POST
def begin(request: HttpRequest) -> HttpResponse:
    """Return a new session's tickets, or the rest of an open session."""
    kind = _body(request).get("kind")
    if kind not in Kind.values:
        return _problem(f"kind: say one of {', '.join(Kind.values)}", 422)
    voter = ballots.voter_of(request)
    if voter and (left := ballots.open_session(voter, kind)):
        return JsonResponse(_session(left))
    if seconds := wait(request, "vote_session"):
        return _too_many(seconds)
    network = client_network(request) or "unknown"
    used = {"network": network} | ({"voter": voter.key} if voter else {})
    if Use.objects.take("vote", used, settings.VOTE_SESSIONS_PER_DAY):
        return _problem(
            "You have reached today's limit. Thank you, and please come back tomorrow.", 429
        )
    new = voter or Voter.objects.create()
    made = ballots.start(new, kind)
    if not made:
        if voter is None:
            new.delete()  # there was no question for this voter
        return _problem(NOTHING, 404)
    response = JsonResponse(_session(made))
    ballots.remember(response, new)
    return response


@never_cache
@require_POST
def answer(request: HttpRequest) -> HttpResponse:
    """Save the answer of a ticket, once."""
    body = _body(request)
    vote = _own_vote(request, str(body.get("ticket", "")))
    looked = body.get("looked")
    try:
        ballots.answer(
            vote,
            str(body.get("answer", "")),
            body.get("seconds"),
            looked if isinstance(looked, dict) else None,
        )
    except ballots.NotAccepted as error:
        return _problem(str(error), error.status)
    return JsonResponse({"taken": True})


@require_safe
@noindex
def image(request: HttpRequest, ticket: str, side: str) -> HttpResponse:
    """Serve an image of an open ticket.

    Raises Http404 if the question is answered or no longer votable.
    """
    vote = _own_vote(request, ticket)
    question = vote.question
    source = question.case.image.stored
    if not vote.is_open or source is None:
        raise Http404("this question has ended")
    # Checked on every request, because a run may have been withdrawn meanwhile.
    if not Question.objects.votable().filter(pk=question.pk).exists():
        raise Http404("this question is over")
    stored = source
    if side != "source":
        first = (side == "left") == vote.first_left or question.second is None
        trip = question.first if first else question.second
        if trip is None or trip.restored is None:
            raise Http404("there is no such image")
        stored = trip.restored
    try:
        data = ballots.read_image(stored, (source.width, source.height))
    except (FileNotFoundError, ImageError):
        raise Http404("this image is lost") from None
    response = HttpResponse(data, content_type="image/webp")
    # Not cached or named, so that a cache cannot reveal where else the image is shown.
    response["Cache-Control"] = "private, no-store"
    response["Referrer-Policy"] = "no-referrer"
    response["Content-Disposition"] = "inline"
    return response


@never_cache
@require_safe
@noindex
def done(request: HttpRequest, session: str) -> HttpResponse:
    """Show the names, the metrics' results and the answers of others."""
    voter = ballots.voter_of(request)
    if voter is None or not ballots.is_finished(session, voter):
        return redirect("vote")
    votes = Vote.objects.filter(session=session, voter=voter)
    kind = votes.values_list("kind", flat=True)[0]
    rows = people.revealed(votes)
    context = {
        "rows": rows,
        "answered": votes.count(),
        "twice": any(row.repeated_answer is not None for row in rows),
        "kind": kind,
        "usable": kind == Kind.USABLE,
    }
    return render(request, "leaderboard/vote_done.html", context)


def _session(made: list[Vote]) -> dict[str, Any]:
    """Return the tickets, their addresses and the size of each source."""
    votes = Vote.objects.filter(session=made[0].session)
    return {
        "answer": reverse("vote_answer"),
        "done": reverse("vote_done", args=[made[0].session]),
        "before": votes.answered().count(),
        "total": votes.count(),
        "questions": [_question(vote) for vote in made],
    }


def _question(vote: Vote) -> dict[str, Any]:
    source = vote.question.case.image.stored
    sides = ("source", "left", "right") if vote.kind == Kind.PAIR else ("source", "left")
    return {
        "ticket": vote.ticket,
        "width": source.width if source else 0,
        "height": source.height if source else 0,
        "images": {side: reverse("vote_image", args=[vote.ticket, side]) for side in sides},
    }


def _own_vote(request: HttpRequest, ticket: str) -> Vote:
    """Return the vote of this ticket. Raises Http404 for another voter's ticket."""
    related = (
        *("voter", "question__case__image__stored", "question__first__restored"),
        "question__second__restored",
    )
    # Loss maps and evidence are not read: they take longer than all other columns.
    votes = Vote.objects.select_related(*related).only(
        *("pk", "ticket", "kind", "role", "first_left", "answered_at", "asked_at", "voter__key"),
        *("question__case__image__stored", "question__first__restored"),
        *("question__second__restored", "question__kind"),
    )
    if not TICKET.fullmatch(ticket):  # no query: PostgreSQL rejects NUL bytes
        raise Http404("there is no such question")
    vote = get_object_or_404(votes, ticket=ticket)
    if ballots.voter_key(request) != vote.voter.key:
        raise Http404("this is another voter's question")
    return vote


def _body(request: HttpRequest) -> dict[str, Any]:
    if len(request.body) > LONGEST_BODY:
        return {}
    try:
        content = json.loads(request.body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _problem(why: str, status: int) -> JsonResponse:
    return JsonResponse({"detail": why}, status=status)


def _too_many(seconds: int) -> JsonResponse:
    response = _problem("Too many sessions from your network; please come back later.", 429)
    response["Retry-After"] = str(seconds)
    return response


def stamp() -> str:
    """Return a string that changes with the report and the board."""
    written = PeopleReport.objects.order_by("pk").values_list("computed_at", flat=True).first()
    return f"{written}|{rows.stamp()}"


@require_safe
@cached_page(stamp)
@noindex_variants
def agreement(request: HttpRequest) -> HttpResponse:
    """Show the agreement of metrics, witnesses and judges with people."""
    report = PeopleReport.objects.order_by("pk").first()
    context = people.agreement(report) if report else {}
    context["rule"] = {
        "expected": f"{rule.PRIOR_PASSED:g} of {rule.PRIOR_CHECKS:g}",
        "full": rule.FULL_TRUST,
        "sides": rule.SIDE_DEVIATIONS,
        "order": rule.ORDER_DEVIATIONS,
        "votes": rule.MIN_VOTES,
        "voters": rule.MIN_VOTERS,
    }
    return render(request, "leaderboard/agreement.html", context)
