"""Runs, their chains and trips, and what each call cost."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.urls import reverse

from leaderboard.models.entries import EditingModel
from leaderboard.models.pictures import StoredImage
from leaderboard.models.suites import Case, Suite


class RunState(models.TextChoices):
    QUEUED = "queued", "Queued"
    PLAYING = "playing", "Playing"
    SCORING = "scoring", "Scoring"
    PAUSED = "paused", "Paused"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


#: The allowed moves of a run, in one place. Finished runs move only to be scored again.
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


class RunQuerySet(models.QuerySet["Run"]):
    def active(self) -> RunQuerySet:
        return self.filter(state__in=ACTIVE_STATES)

    def unfinished(self) -> RunQuerySet:
        return self.filter(state__in=(*ACTIVE_STATES, RunState.PAUSED))

    def public(self) -> RunQuerySet:
        """Runs that anybody may look at."""
        return self.filter(published=True, editing_model__status=EditingModel.Status.PUBLISHED)

    def on_the_board(self) -> RunQuerySet:
        """The run that stands for each model on its suite."""
        return self.public().filter(current=True)


class Run(models.Model):
    """One editing model on one suite."""

    class Source(models.TextChoices):
        OURS = "ours", "Played here"
        EXTERNAL = "external", "Imported bundle"
        PUBLISHED = "published", "Published elsewhere"

    editing_model = models.ForeignKey(EditingModel, models.PROTECT, related_name="runs")
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="runs")
    state = models.CharField(
        max_length=12, choices=RunState, default=RunState.QUEUED, db_index=True
    )
    reason = models.CharField(max_length=40, blank=True, help_text="Code of why it is paused.")
    reason_text = models.CharField(max_length=500, blank=True)
    resume_at = models.DateTimeField(null=True, blank=True, help_text="Resumes by itself then.")
    seed = models.PositiveIntegerField(default=0)
    budget_calls = models.PositiveIntegerField(null=True, blank=True)
    budget_usd = models.DecimalField(max_digits=10, decimal_places=4, null=True, blank=True)
    calls = models.PositiveIntegerField(default=0, editable=False)
    spent_usd = models.DecimalField(max_digits=12, decimal_places=5, default=0, editable=False)
    metrics = models.JSONField(
        default=dict,
        blank=True,
        editable=False,
        help_text="Pinned when scoring starts: name → {version, weights_sha256} or {missing}.",
    )
    provenance = models.JSONField(default=dict, blank=True, editable=False)
    source = models.CharField(max_length=12, choices=Source, default=Source.OURS)
    verified = models.BooleanField(
        null=True, help_text="External runs: did every number recompute?"
    )
    published = models.BooleanField(default=False, db_index=True)
    current = models.BooleanField(
        default=False, db_index=True, help_text="Stands for its model on the board."
    )
    complete = models.BooleanField(default=False, help_text="Every case of the suite has a result.")
    flags = models.JSONField(
        default=list, blank=True, help_text="Signs of cheating, with their evidence."
    )
    cleared = models.BooleanField(
        default=False, help_text="An admin looked at the flags and lets the run rank."
    )
    # Progress, cheap to poll: kept up by whoever writes trips and scores.
    chains_total = models.PositiveIntegerField(default=0, editable=False)
    chains_done = models.PositiveIntegerField(default=0, editable=False)
    edits_total = models.PositiveIntegerField(default=0, editable=False)
    edits_done = models.PositiveIntegerField(default=0, editable=False)
    trips_scored = models.PositiveIntegerField(default=0, editable=False)
    edit_seconds = models.FloatField(default=0, editable=False)
    last_error = models.CharField(max_length=500, blank=True, editable=False)
    progress_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)
        indexes = [models.Index(fields=("suite", "current"))]

    def __str__(self) -> str:
        return f"{self.editing_model} on {self.suite}"

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.pk])

    @property
    def is_ranked(self) -> bool:
        """Whether the run takes part in the ranks of its suite."""
        return (
            self.complete
            and not self.editing_model.is_reference
            and self.source == self.Source.OURS
            and (self.cleared or not self.flags)
        )

    @property
    def seconds_per_edit(self) -> float | None:
        return self.edit_seconds / self.edits_done if self.edits_done else None

    @property
    def usd_per_edit(self) -> float | None:
        """What an edit cost in this run, where the price is known."""
        return (
            float(self.spent_usd) / self.edits_done if self.spent_usd and self.edits_done else None
        )


class ChainState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    PLAYING = "playing", "Playing"
    PLAYED = "played", "Played"


class Outcome(models.TextChoices):
    """How a chain ended; all but completed and lost are the model's own doing."""

    COMPLETED = "completed", "Completed"
    REFUSED = "refused", "Refused"
    BLANK = "blank", "Blank picture"
    FAILED = "failed", "No usable answer"
    LOST = "lost", "Lost by us"


class Chain(models.Model):
    """One case played by one run."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="chains")
    case = models.ForeignKey(Case, models.PROTECT, related_name="chains")
    repeat = models.PositiveSmallIntegerField(default=0)
    state = models.CharField(max_length=10, choices=ChainState, default=ChainState.WAITING)
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True)
    outcome_text = models.CharField(max_length=500, blank=True)
    token = models.UUIDField(null=True, help_text="Fences off workers that lost their lease.")
    lease_until = models.DateTimeField(null=True)
    score_token = models.UUIDField(null=True)
    score_lease_until = models.DateTimeField(null=True)
    trips_played = models.PositiveSmallIntegerField(default=0)
    trips_scored = models.PositiveSmallIntegerField(default=0)
    results = models.JSONField(
        default=dict,
        help_text="Per metric: retention by trip, event and its time by level, AUC.",
    )

    class Meta:
        ordering = ("case__position", "repeat")
        constraints = [
            models.UniqueConstraint(fields=("run", "case", "repeat"), name="chain_case_repeat")
        ]
        indexes = [
            models.Index(fields=("run", "state")),
            models.Index(
                fields=("run",),
                name="chain_unscored",
                condition=Q(trips_scored__lt=F("trips_played")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.case} ({self.run.editing_model})"

    def get_absolute_url(self) -> str:
        return reverse("run_case", args=[self.run_id, self.case_id])


class Trip(models.Model):
    """Trip n of a chain: Yn (edited) and Xn (restored)."""

    chain = models.ForeignKey(Chain, models.CASCADE, related_name="trips")
    number = models.PositiveSmallIntegerField()
    edited = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    restored = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    edited_seconds = models.FloatField(null=True)
    restored_seconds = models.FloatField(null=True)
    edited_notes = models.JSONField(default=dict)
    restored_notes = models.JSONField(default=dict)
    reframed = models.BooleanField(default=False)
    change_seen = models.BooleanField(null=True)
    change_measure = models.JSONField(default=dict)
    step = models.FloatField(null=True, help_text="RMSE between this return and the one before.")
    from_source = models.FloatField(null=True, help_text="RMSE between this return and the source.")
    worst_window = models.JSONField(null=True, help_text="[x, y, side] of the largest local loss.")
    scored_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("number",)
        constraints = [models.UniqueConstraint(fields=("chain", "number"), name="trip_number")]

    def __str__(self) -> str:
        return f"trip {self.number} of {self.chain_id}"


class Score(models.Model):
    """The distance between the source and one return, by one metric."""

    trip = models.ForeignKey(Trip, models.CASCADE, related_name="scores")
    metric = models.ForeignKey("leaderboard.MetricVersion", models.PROTECT, related_name="scores")
    distance = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("trip", "metric"), name="score_metric")]

    def __str__(self) -> str:
        return f"{self.metric} {self.distance:.4f}"


class Call(models.Model):
    """The ledger: every attempt to have a picture edited, answered or not."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="ledger")
    chain = models.ForeignKey(Chain, models.CASCADE, related_name="ledger")
    number = models.PositiveSmallIntegerField()
    direction = models.CharField(max_length=8)
    attempt = models.PositiveSmallIntegerField(default=1)
    outcome = models.CharField(max_length=16, help_text="answered, refused, or the fault's code.")
    message = models.CharField(max_length=500, blank=True)
    seconds = models.FloatField(default=0)
    bytes = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=10, decimal_places=5, null=True)
    started_at = models.DateTimeField()

    class Meta:
        ordering = ("started_at",)
        indexes = [models.Index(fields=("run", "started_at"))]

    def __str__(self) -> str:
        return f"{self.direction} {self.number}, attempt {self.attempt}: {self.outcome}"
