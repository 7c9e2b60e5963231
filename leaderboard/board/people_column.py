"""What people say of a model, in one cell: the share of pairs that it wins, with its interval."""

from __future__ import annotations

from typing import Self

from leaderboard import formatting
from leaderboard.models import PeopleStanding, Run


class Preferred(float):
    """The share of pairs won against the other models; knows the ends of its interval."""

    low: float | None
    high: float | None

    @classmethod
    def of(cls, run: Run) -> Self | None:
        """None until people have said enough of the run."""
        # Its absence is an AttributeError, and known without a query where the run was
        # read together with it.
        found: PeopleStanding | None = getattr(run, "people", None)
        if found is None or found.share is None:
            return None
        made = cls(found.share)
        made.low, made.high = found.share_low, found.share_high
        return made


def in_words(share: Preferred | None) -> str:
    """ "63 % (55–70)"."""
    if share is None:
        return "–"
    around = formatting.interval(share.low, share.high, 100, 0)
    return f"{formatting.percent(share)}{f' ({around})' if around else ''}"


def low(run: Run) -> float | None:
    share = Preferred.of(run)
    return share.low if share is not None else None


def high(run: Run) -> float | None:
    share = Preferred.of(run)
    return share.high if share is not None else None
