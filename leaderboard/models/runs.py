"""Runs of an editing model on a suite; the states of runs and chains.

Audits are extra calls that test a model for cheating. Finalising, the last step of a run, computes
the results. Only one worker does this, under a lease: a claim that lapses unless it is renewed.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.validators import MaxValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse

from evaluation.analysis.stopping import MAX_STOP_AFTER
from evaluation.arms import Arm
from evaluation.audits.findings import MEDIANS
from evaluation.metrics import scored_metrics
from evaluation.records import RANKED_WAYS, Played
from evaluation.run_secret import new_secret
from leaderboard.models.entries import EditingModel
from leaderboard.models.suites import Suite


class RunState(models.TextChoices):
    QUEUED = "queued", "Queued"
    PLAYING = "playing", "Playing"
    SCORING = "scoring", "Scoring"
    PAUSED = "paused", "Paused"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


#: The allowed moves between states. A finished run moves only to be played or scored again.
RUN_MOVES: dict[str, frozenset[str]] = {
    RunState.QUEUED: frozenset(
        {RunState.PLAYING, RunState.PAUSED, RunState.CANCELLED, RunState.FAILED}
    ),
    RunState.PLAYING: frozenset(
        {RunState.SCORING, RunState.PAUSED, RunState.CANCELLED, RunState.FAILED}
    ),
    RunState.SCORING: frozenset(
        {RunState.PLAYING, RunState.PAUSED, RunState.FINISHED, RunState.CANCELLED, RunState.FAILED}
    ),
    RunState.PAUSED: frozenset({RunState.QUEUED, RunState.CANCELLED, RunState.FAILED}),
    RunState.FINISHED: frozenset({RunState.QUEUED, RunState.SCORING}),
    RunState.FAILED: frozenset({RunState.QUEUED}),
    RunState.CANCELLED: frozenset({RunState.QUEUED}),
}
ACTIVE_STATES = (RunState.QUEUED, RunState.PLAYING, RunState.SCORING)
ENDED_STATES = (RunState.FINISHED, RunState.FAILED, RunState.CANCELLED)


class ChainState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    PLAYING = "playing", "Playing"
    PLAYED = "played", "Played"


class Outcome(models.TextChoices):
    """The reason why a chain ended. The model causes every outcome except REGULAR_ENDS and LOST."""

    COMPLETED = "completed", "Completed"
    KNOWN = "known", "Stopped: result known"
    CONVERGED = "converged", "Stopped: nothing changes any more"
    REFUSED = "refused", "Refused"
    BLANK = "blank", "Blank image"
    FAILED = "failed", "No usable answer"
    LOST = "lost", "Lost through our fault"


#: Regular ends: every requested trip was answered.
REGULAR_ENDS = (Outcome.COMPLETED, Outcome.KNOWN, Outcome.CONVERGED)


def after(seconds: float) -> Any:
    """Return the database's time plus `seconds`: the clock that all workers share."""
    return Now() + timedelta(seconds=seconds)


class RunQuerySet(models.QuerySet["Run"]):
    @transaction.atomic
    def create(self, **fields: Any) -> Run:  # type: ignore[override]
        """Create a run with its progress and review; `fields` may set fields of all three."""
        parts = {
            model: {
                field.name: fields.pop(field.name)
                for field in model._meta.fields
                if field.name in fields
            }
            for model in (RunProgress, RunReview)
        }
        run = super().create(**fields)
        for model, values in parts.items():
            model.objects.create(run=run, **values)
        return run

    def active(self) -> RunQuerySet:
        return self.filter(state__in=ACTIVE_STATES)

    def unfinished(self) -> RunQuerySet:
        return self.filter(state__in=(*ACTIVE_STATES, RunState.PAUSED))

    def due(self) -> RunQuerySet:
        """Return paused runs that should resume by now."""
        return self.filter(state=RunState.PAUSED, resume_at__lte=Now())

    def move(self, to: str, **fields: Any) -> int:
        """Move these runs to a state if allowed; return how many moved.

        Every change of a run's state is made here.
        """
        allowed_from = [state for state, allowed in RUN_MOVES.items() if to in allowed]
        if to in ACTIVE_STATES:
            fields = {"reason": "", "reason_text": "", "resume_at": None} | fields
        if to in ENDED_STATES:
            fields = {"resume_at": None, "finished_at": Now()} | fields
        return self.filter(state__in=allowed_from).update(state=to, **fields)

    def release_finalising(self, token: UUID) -> int:
        """Release this token's claims on finalising; return the number of runs."""
        return self.filter(token=token).update(token=None, lease_until=None)

    def counted(self) -> RunQuerySet:
        """Return runs whose numbers are public, also on sealed suites (secret images)."""
        return self.filter(published=True, editing_model__status=EditingModel.Status.PUBLISHED)

    def public(self) -> RunQuerySet:
        """Return runs whose numbers and images are public."""
        return self.counted().filter(suite__sealed=False)

    def visible_to(self, user: Any) -> RunQuerySet:
        """Return runs visible to this user: all to staff, else public and reference runs."""
        if user.is_staff:
            return self.all()
        open_to_all = Q(published=True) | Q(editing_model__is_reference=True)
        shown = self.filter(open_to_all, editing_model__status=EditingModel.Status.PUBLISHED)
        return shown.filter(suite__sealed=False)

    def withdrawn(self) -> RunQuerySet:
        """Return runs that are no longer public; their pages state the date of withdrawal."""
        hidden = Q(published=False) | Q(editing_model__status=EditingModel.Status.HIDDEN)
        return self.filter(hidden, withdrawn_at__isnull=False, suite__sealed=False)

    def outside_experiments(self) -> RunQuerySet:
        """Return runs that are no arm of an experiment."""
        return self.filter(arm_digest="")

    def publish(self) -> int:
        """Publish these finished runs; return how many were not public before."""
        rows = self.filter(state=RunState.FINISHED, published=False)
        return rows.update(published=True, withdrawn_at=None)

    def withdraw(self) -> int:
        """Remove these runs from the board; their pages state the date of withdrawal."""
        return self.filter(published=True).update(published=False, withdrawn_at=Now())

    def on_the_board(self) -> RunQuerySet:
        """Return the run that represents each model on its suite."""
        return self.public().filter(current=True)


class RunManager(models.Manager.from_queryset(RunQuerySet)):  # type: ignore[misc]
    """A manager that reads every run together with its progress and its review."""

    def get_queryset(self) -> RunQuerySet:
        return super().get_queryset().select_related("progress", "review")


class Run(models.Model):
    """One editing model on one suite. The run's counters and its review are separate rows."""

    class Source(models.TextChoices):
        OURS = "ours", "Played here"
        EXTERNAL = "external", "Imported bundle"
        PUBLISHED = "published", "Published elsewhere"

    editing_model = models.ForeignKey(EditingModel, models.PROTECT, related_name="runs")
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="runs")
    state = models.CharField(
        max_length=12, choices=RunState, default=RunState.QUEUED, db_index=True
    )
    reason = models.CharField(
        max_length=40, blank=True, help_text="Code of the reason for a pause."
    )
    reason_text = models.CharField(max_length=500, blank=True)
    resume_at = models.DateTimeField(
        null=True, blank=True, help_text="When the run resumes by itself."
    )
    secret = models.CharField(
        max_length=64,
        default=new_secret,
        editable=False,
        help_text="Seeds, order and audits derive from it. Published when the run has finished.",
    )
    earlier_secrets = models.JSONField(
        default=list,
        editable=False,
        help_text="Secrets published before chains were played again, latest first.",
    )
    arm = models.JSONField(
        default=dict,
        editable=False,
        help_text="Settings of an experiment, where they differ from the suite's.",
    )
    arm_digest = models.CharField(
        max_length=64, blank=True, editable=False, db_index=True, help_text="Empty: no experiment."
    )
    stop_after = models.PositiveSmallIntegerField(
        default=0,
        validators=[MaxValueValidator(MAX_STOP_AFTER)],
        help_text="Chains stop this many trips after their result is known. 0: they never stop "
        "early.",
    )
    metrics = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text="Pinned when scoring starts: name → {version, weights_sha256} or {missing}.",
    )
    # The versions and settings that the results depend on.
    provenance = models.JSONField(default=dict, blank=True, editable=False)
    source = models.CharField(max_length=12, choices=Source, default=Source.OURS)
    verified = models.BooleanField(
        null=True, help_text="External runs: were all numbers reproduced from the images?"
    )
    published = models.BooleanField(default=False, db_index=True)
    withdrawn_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When it was removed from the board after being public.",
    )
    current = models.BooleanField(
        default=False, db_index=True, help_text="Represents its model on the board."
    )
    complete = models.BooleanField(default=False, help_text="Every case of the suite has a result.")
    orders = models.JSONField(
        default=list,
        editable=False,
        help_text="Differences between the images of edit pairs that make the same edits in "
        "different orders.",
    )
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    # The lease of the one worker that finalises the run.
    token = models.UUIDField(null=True, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)

    #: When the model's first run on this suite ended; set by the board.
    added_at: datetime | None = None
    #: The endpoint's API format, and the most common longest side of its images; set by the board.
    contract: str | None = None
    returned: int | None = None

    objects = RunManager()

    class Meta:
        ordering = ("-created_at",)
        indexes = [models.Index(fields=("suite", "current"))]

    def __str__(self) -> str:
        return f"{self.editing_model} on {self.suite}"

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.pk])

    @cached_property
    def core_arm(self) -> Arm:
        """The settings that the run is played with."""
        return Arm.from_dict(self.arm)

    def move(self, to: str, **fields: Any) -> bool:
        """Move this run to a state if its stored state allows it."""
        moved = bool(Run.objects.filter(pk=self.pk).move(to, **fields))
        self.refresh_from_db(fields=["state", "reason", "reason_text", "resume_at", *fields])
        return moved

    def claim_finalising(self, token: UUID) -> bool:
        """Claim the right to finalise this run; return True if this token has it now."""
        free = Q(lease_until=None) | Q(lease_until__lt=Now()) | Q(token=token)
        claimable = Run.objects.filter(free, pk=self.pk, state=RunState.SCORING)
        return bool(claimable.update(token=token, lease_until=after(settings.LEASE_SECONDS)))

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED_STATES

    @property
    def published_secret(self) -> str | None:
        """The secret of the run; None until the run has finished."""
        return self.secret if self.state == RunState.FINISHED else None

    @property
    def secrets(self) -> list[str]:
        """The current secret and all earlier ones, latest first."""
        return [self.secret, *self.earlier_secrets]

    def replace_secret(self) -> None:
        """Set a new secret for chains played from now on; keep the published secret."""
        self.earlier_secrets, self.secret = self.secrets, new_secret()
        self.save(update_fields=["secret", "earlier_secrets"])

    @property
    def played(self) -> Played:
        """The way the run was played; imports are RECOMPUTED if all numbers were reproduced."""
        if self.source == self.Source.OURS:
            return Played.by_editor(self.editing_model.editor)
        return Played.RECOMPUTED if self.verified else Played.REPORTED

    @property
    def is_ranked(self) -> bool:
        """Return True if the run takes part in the ranks of its suite.

        Contributed runs are never ranked: recomputing verifies their numbers, not the origin of
        their images. Arms of experiments are not ranked either.
        """
        admitted = self.review.cleared or not self.review.flags
        listed = self.complete and not self.arm_digest and not self.editing_model.is_reference
        return listed and admitted and self.played in RANKED_WAYS

    @property
    def unranked_reason(self) -> str:
        """Return why a finished run of this site is not ranked; empty if it is.

        The board, the run's page, its submitter's page and the admin show this text.
        """
        review = self.review
        if review.flags and not review.cleared:
            why = "; ".join(filter(None, review.flag_texts)) or "flagged"
            return review.decision or f"{why}; under review"
        if not self.complete:
            missing = self.progress.chains_total - self.progress.chains_done
            if missing > 0:
                return f"incomplete: {missing} case{'' if missing == 1 else 's'} missing"
            return "incomplete: not every case has a result"
        return ""

    @property
    def contributed_by(self) -> str:
        """The contributor of a run played elsewhere; empty if an operator imported it."""
        return str(self.provenance.get("contributed_by", "")) if self.provenance else ""

    @property
    def public_state(self) -> str:
        """The state of an ended run, as a sentence without its full stop."""
        if self.withdrawn_at and not self.published:
            return f"Withdrawn on {self.withdrawn_at:%-d %B %Y}"
        if self.state != RunState.FINISHED:
            return self.get_state_display()
        if not self.published:
            return "Finished, not public yet"
        if self.arm_digest:
            return "Published, not ranked: an arm of an experiment (one way to play the suite)"
        if self.editing_model.is_reference:
            return "Published as a reference editor, not ranked: a program with known behaviour"
        if self.source != self.Source.OURS:
            return "Published, not ranked: played elsewhere"
        if reason := self.unranked_reason:
            return f"Published, not ranked: {reason}"
        if not self.current:
            return "Published; a newer run represents the model on the board"
        return "Published and ranked"

    @property
    def scored_metrics(self) -> list[str]:
        """The metrics that score the run, in order, without those that cannot run."""
        return scored_metrics(self.metrics)


class RunProgress(models.Model):
    """The progress of a run, its budget and spending.

    The counters are derived once a second from the ledger, the list of the run's calls
    (jobs/control.py), so that pages can poll them cheaply.
    """

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, related_name="progress")
    budget_calls = models.PositiveIntegerField(null=True, blank=True)
    budget_usd = models.DecimalField(max_digits=10, decimal_places=4, null=True, blank=True)
    calls = models.PositiveIntegerField(default=0, editable=False)
    spent_usd = models.DecimalField(max_digits=12, decimal_places=5, default=0, editable=False)
    chains_total = models.PositiveIntegerField(default=0, editable=False)
    chains_done = models.PositiveIntegerField(default=0, editable=False)
    edits_total = models.PositiveIntegerField(default=0, editable=False)
    edits_done = models.PositiveIntegerField(default=0, editable=False)
    edits_saved = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text="Edits not made because chains stopped early.",
    )
    trips_scored = models.PositiveIntegerField(default=0, editable=False)
    edit_seconds = models.FloatField(default=0, editable=False)
    median_seconds = models.FloatField(
        null=True, editable=False, help_text="Median seconds per edit."
    )
    p95_seconds = models.FloatField(
        null=True, editable=False, help_text="Seconds within which 95 % of the edits ended."
    )
    last_error = models.CharField(max_length=500, blank=True, editable=False)
    progress_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return f"progress of run {self.run_id}"

    @property
    def trips_total(self) -> int:
        return self.chains_total * self.run.suite.trips

    @property
    def steps_done(self) -> int:
        """Edits played plus trips scored, out of `steps_total`."""
        return self.edits_done + self.trips_scored

    @property
    def steps_total(self) -> int:
        return self.edits_total + self.trips_total

    @property
    def usd_saved(self) -> float | None:
        """The cost of edits saved by early stopping; None without a price."""
        return self.edits_saved * self.usd_per_edit if self.usd_per_edit else None

    @property
    def usd_per_edit(self) -> float | None:
        """The cost of an edit in this run; None without a price."""
        return (
            float(self.spent_usd) / self.edits_done if self.spent_usd and self.edits_done else None
        )


class RunReview(models.Model):
    """The review of a run: flags and hints of audits, and an admin's decision."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, related_name="review")
    flags = models.JSONField(
        default=list, blank=True, help_text="Reasons not to rank the run until it is reviewed."
    )
    hints = models.JSONField(
        default=list, blank=True, help_text="Hints for admins; they change no rank."
    )
    cleared = models.BooleanField(
        default=False,
        help_text="An admin reviewed the flags and accepts them.",
    )
    decision = models.CharField(max_length=500, blank=True, help_text="The admin's reason; public.")
    marks_kept = models.FloatField(
        null=True,
        editable=False,
        help_text="Median share of an audit's painted mark that was kept.",
    )
    loss_under_audit = models.FloatField(
        null=True, editable=False, help_text="Median loss after an audit's harmless alteration."
    )
    cold_gap = models.FloatField(
        null=True,
        editable=False,
        help_text="How much more one edit of an unseen image loses than three trips of its chain: "
        "the median difference.",
    )
    changed_elsewhere = models.FloatField(
        null=True,
        editable=False,
        help_text="Median change outside the edited region by one edit, measured by the headline "
        "metric.",
    )

    #: The fields above that are medians of the audits.
    MEDIANS = MEDIANS

    def __str__(self) -> str:
        return f"review of run {self.run_id}"

    @property
    def flag_texts(self) -> list[str]:
        """The reasons why the run is not ranked."""
        return [str(flag.get("text", "")) for flag in self.flags if isinstance(flag, dict)]
