"""Blind votes and their results, and the page on how well metrics agree with people.

A session asks ten questions and then reveals the models. Until then no response identifies a
model: URLs contain only tickets (random ids, one for each question), and images are encoded again
(people.ballots).
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
from leaderboard.visitors import client_network, seconds_to_wait

NO_QUESTIONS = "There are no questions at the moment. Please come back when more runs have ended."
#: Largest request in bytes: a ticket, an answer and viewing data.
MAX_BODY = 2_000
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
        "has_questions": Question.objects.open().filter(kind=kind).exists(),
    }
    return render(request, "leaderboard/vote.html", context)


@never_cache
@require_POST
def begin(request: HttpRequest) -> HttpResponse:
    """Return the tickets of a new session, or the unanswered tickets of an open session."""
    kind = _body(request).get("kind")
    if kind not in Kind.values:
        return _problem(f"kind: must be one of {', '.join(Kind.values)}", 422)
    voter = ballots.current_voter(request)
    if voter and (left := ballots.open_session(voter, kind)):
        return JsonResponse(_session(left))
    if seconds := seconds_to_wait(request, "vote_session"):
        return _too_many(seconds)
    network = client_network(request) or "unknown"
    used = {"network": network} | ({"voter": voter.key} if voter else {})
    if Use.objects.take("vote", used, settings.VOTE_SESSIONS_PER_DAY):
        return _problem(
            "You have reached today's limit. Thank you, and please come back tomorrow.", 429
        )
    voter_or_new = voter or Voter.objects.create()
    votes = ballots.start(voter_or_new, kind)
    if not votes:
        if voter is None:
            voter_or_new.delete()
        return _problem(NO_QUESTIONS, 404)
    response = JsonResponse(_session(votes))
    ballots.set_voter_cookie(response, voter_or_new)
    return response


@never_cache
@require_POST
def answer(request: HttpRequest) -> HttpResponse:
    """Save the answer to a ticket's question. Each question can be answered once."""
    body = _body(request)
    vote = _vote_of_visitor(request, str(body.get("ticket", "")))
    viewing = body.get("looked")
    try:
        ballots.answer(
            vote,
            str(body.get("answer", "")),
            body.get("seconds"),
            viewing if isinstance(viewing, dict) else None,
        )
    except ballots.NotAccepted as error:
        return _problem(str(error), error.status)
    return JsonResponse({"taken": True})


@require_safe
@noindex
def image(request: HttpRequest, ticket: str, side: str) -> HttpResponse:
    """Serve an image of an open ticket.

    Raises Http404 if the question is answered or no longer open to votes.
    """
    vote = _vote_of_visitor(request, ticket)
    question = vote.question
    source = question.case.image.stored
    if not vote.is_open or source is None:
        raise Http404("This question is already answered, or it has expired.")
    # Checked on every request, because the run may have been withdrawn since.
    if not Question.objects.votable().filter(pk=question.pk).exists():
        raise Http404("This question is closed.")
    stored = source
    if side != "source":
        is_first = (side == "left") == vote.first_left or question.second is None
        trip = question.first if is_first else question.second
        if trip is None or trip.restored is None:
            raise Http404("There is no such image.")
        stored = trip.restored
    try:
        data = ballots.read_image(stored, (source.width, source.height))
    except (FileNotFoundError, ImageError):
        raise Http404("This image is missing from storage.") from None
    response = HttpResponse(data, content_type="image/webp")
    # A cached copy or a file name could reveal on which other page the image is shown.
    response["Cache-Control"] = "private, no-store"
    response["Referrer-Policy"] = "no-referrer"
    response["Content-Disposition"] = "inline"
    return response


@never_cache
@require_safe
@noindex
def done(request: HttpRequest, session: str) -> HttpResponse:
    """Reveal the models of a finished session, with metric values and other people's answers."""
    voter = ballots.current_voter(request)
    if voter is None or not ballots.is_finished(session, voter):
        return redirect("vote")
    votes = Vote.objects.filter(session=session, voter=voter)
    kind = votes.values_list("kind", flat=True)[0]
    rows = people.answered_questions(votes)
    context = {
        "rows": rows,
        "answered": votes.count(),
        "twice": any(row.repeated_answer is not None for row in rows),
        "kind": kind,
        "usable": kind == Kind.USABLE,
    }
    return render(request, "leaderboard/vote_done.html", context)


def _session(open_votes: list[Vote]) -> dict[str, Any]:
    """Return a session for the script: URLs, and tickets with the size of each source."""
    votes = Vote.objects.filter(session=open_votes[0].session)
    return {
        "answer": reverse("vote_answer"),
        "done": reverse("vote_done", args=[open_votes[0].session]),
        "before": votes.answered().count(),
        "total": votes.count(),
        "questions": [_question(vote) for vote in open_votes],
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


def _vote_of_visitor(request: HttpRequest, ticket: str) -> Vote:
    """Return the vote with this ticket. Raises Http404 if it belongs to another voter."""
    related = (
        *("voter", "question__case__image__stored", "question__first__restored"),
        "question__second__restored",
    )
    # `only` leaves out loss maps and evidence, which take longer to read than all other columns.
    votes = Vote.objects.select_related(*related).only(
        *("pk", "ticket", "kind", "role", "first_left", "answered_at", "asked_at", "voter__key"),
        *("question__case__image__stored", "question__first__restored"),
        *("question__second__restored", "question__kind"),
    )
    if not TICKET.fullmatch(ticket):  # a NUL byte would make PostgreSQL raise an error
        raise Http404("There is no such question.")
    vote = get_object_or_404(votes, ticket=ticket)
    if ballots.voter_key(request) != vote.voter.key:
        raise Http404("This is another voter's question.")
    return vote


def _body(request: HttpRequest) -> dict[str, Any]:
    if len(request.body) > MAX_BODY:
        return {}
    try:
        content = json.loads(request.body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _problem(why: str, status: int) -> JsonResponse:
    return JsonResponse({"detail": why}, status=status)


def _too_many(seconds: int) -> JsonResponse:
    response = _problem("Too many sessions from your network. Please come back later.", 429)
    response["Retry-After"] = str(seconds)
    return response


def stamp() -> str:
    """Return a string that changes with the report on votes and with the board."""
    written = PeopleReport.objects.order_by("pk").values_list("computed_at", flat=True).first()
    return f"{written}|{rows.stamp()}"


@require_safe
@cached_page(stamp)
@noindex_variants
def agreement(request: HttpRequest) -> HttpResponse:
    """Show how often metrics, witnesses and judges agree with people.

    Witnesses are automatic checks of an edit; judges are witnesses that ask an AI model.
    """
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
