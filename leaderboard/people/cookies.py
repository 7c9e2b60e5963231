"""Who votes, by a signed cookie: a random number and nothing else."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from leaderboard.models import Voter

NAME, SALT, PATH = "voter", "leaderboard.people.voter", "/vote/"
YEAR = 365 * 24 * 3600


def voter_of(request: HttpRequest) -> Voter | None:
    """The voter whose cookie this is; None for a new visitor, and for one who made it up."""
    key = request.get_signed_cookie(NAME, default=None, salt=SALT, max_age=YEAR)
    return Voter.objects.filter(key=key).first() if key else None


def remember(response: HttpResponse, voter: Voter) -> None:
    """Have the browser show who it is, on the pages of votes alone."""
    response.set_signed_cookie(
        NAME,
        voter.key,
        salt=SALT,
        max_age=YEAR,
        path=PATH,
        httponly=True,
        samesite="Lax",
        secure=settings.HTTPS,
    )
