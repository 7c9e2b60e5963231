"""How far a run is, for machines."""

from __future__ import annotations

from datetime import datetime

from ninja import Field, Schema

from leaderboard.models import Run
from leaderboard.models.runs import RunState
from leaderboard.pages import run_status
from leaderboard.pages.progress import progress


class Done(Schema):
    done: int
    total: int


class RunStatusOut(Schema):
    """How far a run is: what its page polls."""

    id: int
    state: str = Field(
        description="queued, playing, scoring, paused, finished, failed or cancelled"
    )
    label: str
    ended: bool = Field(description="Nothing more will happen; stop asking.")
    public: bool = Field(description="Whether its results can be read at /runs/{id}.")
    now: str = Field(description="What happens now, in words.")
    next: str = Field(description="What comes next, in words; may be empty.")
    reason: str = Field(description="Why it is paused or failed, in words.")
    resume_at: datetime | None = Field(description="When a paused run goes on by itself.")
    position: int | None = Field(description="Place among the queued runs, from 1.")
    edits: Done
    chains: Done
    trips_scored: Done
    edits_per_minute: float | None = Field(description="Of the last two minutes.")
    seconds_left: int | None = Field(description="For the edits, at the present rate.")
    calls: int
    spent_usd: float
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, run: Run) -> RunStatusOut:
        known = progress(run)
        same = (
            *("state", "label", "ended", "resume_at", "position", "edits_per_minute"),
            *("seconds_left", "calls", "spent_usd", "started_at", "finished_at", "chains"),
        )
        return cls(
            id=run.pk,
            public=run.published,
            now=run_status.NOW[RunState(run.state)],
            next=run_status.what_next(run),
            reason=known["reason_text"],
            edits=Done(done=known["edits"]["done"], total=known["edits"]["total"]),
            trips_scored=Done(done=known["trips"]["scored"], total=known["trips"]["total"]),
            **{name: known[name] for name in same},
        )
