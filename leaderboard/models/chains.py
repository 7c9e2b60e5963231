"""Chains and their trips: scores, the ledger of calls, audits, a judge's answers.

A trip edits an image and undoes the edit; a chain is a series of trips that starts from a source
image. The ledger lists every call to the model. Audits are extra calls that test the model for
cheating. The judge is a vision-language model that answers questions on trips.

A worker leases the chains that it plays or scores: its claim lapses unless it is renewed in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import models, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now
from django.urls import reverse

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.audits.plan import Audit as PlannedAudit
from evaluation.estimate import Estimate, estimate
from evaluation.metrics import METRICS, in_order
from evaluation.records import MEASURES, TripMeasures
from evaluation.witnesses.judge import max_calls
from leaderboard.models.entries import EditingModel, Pace
from leaderboard.models.images import StoredImage
from leaderboard.models.runs import ChainState, Outcome, Run, after
from leaderboard.models.suites import Case

#: Cost and time of judging are estimated from this many of the latest answers.
LATEST_ANSWERS = 1_000


class ChainQuerySet(models.QuerySet["Chain"]):
    def free(self) -> ChainQuerySet:
        """Return chains that no worker holds: they wait, or their lease has lapsed."""
        lapsed = Q(state=ChainState.PLAYING, lease_until__lt=Now())
        return self.filter(Q(state=ChainState.WAITING) | lapsed)

    def ready(self) -> ChainQuerySet:
        """Return chains that may be played now.

        Excludes chains that must be scored before they continue. Also excludes chains whose source
        image another chain's cold audit must send first: that test needs an image that the model
        has not seen.
        """
        scored = Q(trips_played__lte=F("trips_scored") + F("run__stop_after"))
        cold = Audit.objects.filter(
            kind=Audit.Kind.COLD,
            outcome=Audit.Outcome.PLANNED,
            chain__run=OuterRef("run"),
            chain__case__image=OuterRef("case__image"),
        ).exclude(Q(chain=OuterRef("pk")) | Q(chain__state=ChainState.PLAYED))
        scored_enough = self.filter(Q(run__stop_after=0) | Q(known_at__isnull=False) | scored)
        return scored_enough.exclude(Exists(cold))

    def in_flight(self) -> ChainQuerySet:
        """Return chains that are played under a valid lease."""
        return self.filter(state=ChainState.PLAYING, lease_until__gte=Now())

    def held(self, token: UUID) -> ChainQuerySet:
        """Return chains leased by this token; a job writes only to these."""
        return self.filter(state=ChainState.PLAYING, token=token)

    def unplayed(self) -> ChainQuerySet:
        return self.exclude(state=ChainState.PLAYED)

    def unscored(self) -> ChainQuerySet:
        return self.filter(trips_scored__lt=F("trips_played"))

    def free_to_score(self) -> ChainQuerySet:
        lapsed = Q(score_lease_until=None) | Q(score_lease_until__lt=Now())
        return self.unscored().filter(lapsed)

    def free_slots(self, editing_model: EditingModel) -> int:
        """Return how many more chains of this model may be played at once.

        Counts the chains in flight over all runs and workers: each has at most one call in flight.
        """
        busy = Chain.objects.in_flight().filter(run__editing_model__in=editing_model.peers).count()
        return max(0, editing_model.max_in_flight - busy)

    @transaction.atomic
    def claim(self, run: Run, token: UUID, limit: int, skip: Iterable[int] = ()) -> list[Chain]:
        """Claim up to `limit` free chains outside `skip`, within the model's limit of calls.

        Locks the endpoint's pace row, so that two workers never both take the last free slot.
        """
        model = EditingModel.objects.get(pk=run.editing_model_id)
        Pace.objects.select_for_update().get_or_create(editing_model_id=model.peers[0])
        chosen = self.free().ready().filter(run=run).exclude(pk__in=list(skip))
        chosen = chosen.order_by("pk")[: min(limit, self.free_slots(model))]
        keys = list(chosen.values_list("pk", flat=True))
        free = self.free().filter(pk__in=keys)
        until = after(settings.LEASE_SECONDS)
        if not keys or not free.update(state=ChainState.PLAYING, token=token, lease_until=until):
            return []
        claimed = list(self.held(token).filter(pk__in=keys).select_related("case__image__stored"))
        _mark_calls_lost([chain.pk for chain in claimed])
        return claimed

    def claim_scores(self, run: Run, token: UUID, limit: int) -> list[Chain]:
        """Claim up to `limit` chains with unscored trips, ordered by image."""
        order = ("case__image", "case__position", "repeat")
        chosen = self.free_to_score().filter(run=run).order_by(*order)[:limit]
        keys = list(chosen.values_list("pk", flat=True))
        self.free_to_score().filter(pk__in=keys).update(
            score_token=token, score_lease_until=after(settings.LEASE_SECONDS)
        )
        claimed = self.filter(pk__in=keys, score_token=token)
        return list(claimed.select_related("case__image__stored").order_by(*order))

    def renew(self, token: UUID) -> None:
        """Extend the leases of all chains that this token plays or scores."""
        until = after(settings.LEASE_SECONDS)
        self.held(token).update(lease_until=until)
        self.filter(score_token=token).update(score_lease_until=until)

    def release(self, token: UUID, keys: Iterable[int] | None = None) -> int:
        """Release this token's chains, or only the chains in `keys`; return how many."""
        held = self.held(token)
        return held._release() if keys is None else held.filter(pk__in=list(keys))._release()

    def release_lapsed(self) -> int:
        """Release chains whose lease has lapsed; return how many."""
        return self.free().filter(state=ChainState.PLAYING)._release()

    @transaction.atomic
    def _release(self) -> int:
        keys = list(self.select_for_update().order_by("pk").values_list("pk", flat=True))
        if keys:
            _mark_calls_lost(keys)
            Chain.objects.filter(pk__in=keys).update(
                state=ChainState.WAITING, token=None, lease_until=None
            )
        return len(keys)

    def release_scores(self, token: UUID) -> int:
        """Release the chains that this token was scoring; return how many."""
        return self.filter(score_token=token).update(score_token=None, score_lease_until=None)


def _mark_calls_lost(chains: Sequence[int]) -> None:
    """Mark open calls of these chains as lost: no worker waits for their answers."""
    Call.objects.filter(chain__in=chains, outcome=Call.CALLING).update(
        outcome=Call.LOST, message="The worker stopped before the answer was stored."
    )


class Chain(models.Model):
    """One case played by one run."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="chains")
    case = models.ForeignKey(Case, models.PROTECT, related_name="chains")
    repeat = models.PositiveSmallIntegerField(default=0)
    state = models.CharField(max_length=10, choices=ChainState, default=ChainState.WAITING)
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True)
    outcome_text = models.CharField(max_length=500, blank=True)
    token = models.UUIDField(null=True, help_text="Only the worker with this token may write.")
    lease_until = models.DateTimeField(null=True)
    score_token = models.UUIDField(null=True)
    score_lease_until = models.DateTimeField(null=True)
    trips_played = models.PositiveSmallIntegerField(default=0)
    trips_scored = models.PositiveSmallIntegerField(default=0)
    known_at = models.PositiveSmallIntegerField(
        null=True, help_text="The trip after which the chain's result is known at every threshold."
    )
    # Copied from `results`, at the default threshold, so that pages can filter and sort chains.
    cause = models.CharField(
        max_length=20,
        blank=True,
        help_text="Why the chain ended; censored: it was usable to the last trip.",
    )
    usable_trips = models.FloatField(null=True)
    auc = models.FloatField(null=True)
    results = models.JSONField(
        default=dict,
        help_text="Per metric: retention after each trip, AUC, and the event at each threshold.",
    )
    quality = models.JSONField(
        default=dict,
        help_text="Per no-reference metric: the value of the source, then of each restored image; "
        "null: not run.",
    )

    objects = ChainQuerySet.as_manager()

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
            models.Index(fields=("token",), name="chain_token", condition=Q(token__isnull=False)),
            models.Index(
                fields=("score_token",),
                name="chain_score_token",
                condition=Q(score_token__isnull=False),
            ),
            models.Index(
                fields=("lease_until",), name="chain_playing", condition=Q(state="playing")
            ),
            # The gallery orders all chains of a board by this index alone.
            models.Index(
                fields=("run", "usable_trips", "auc", "id"),
                include=("case", "cause"),
                name="chain_gallery",
                condition=Q(repeat=0, usable_trips__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.case} ({self.run.editing_model})"

    def get_absolute_url(self) -> str:
        return reverse("run_case", args=[self.run_id, self.case_id])

    @property
    def scored_by(self) -> list[str]:
        """The metrics that scored this chain, in display order."""
        return [name for name in METRICS if name in self.results]

    @property
    def headline(self) -> str:
        """The headline metric (overall), or else the first metric that was run; "" if none was."""
        return next(iter(self.scored_by), "")

    def numbers(self, metric: str) -> dict[str, Any]:
        """Return the chain's stored results by this metric; empty if the metric was not run."""
        numbers: dict[str, Any] = self.results.get(metric) or {}
        return numbers

    def distances(self) -> dict[str, dict[int, float]]:
        """Return the distance to the source, by metric and trip, in the run's metric versions."""
        scores = Score.objects.filter(trip__chain=self).select_related("metric", "trip")
        by_metric: dict[str, dict[int, float]] = defaultdict(dict)
        for score in scores:
            pin = self.run.metrics.get(score.metric.name, {})
            scored = (score.metric.version, score.metric.weights_sha256)
            if (pin.get("version"), pin.get("weights_sha256") or "") == scored:
                by_metric[score.metric.name][score.trip.number] = score.distance
        return by_metric

    def retention(self, metric: str) -> list[float]:
        """Retention (share kept) after each trip; empty if the metric was not run."""
        return self.numbers(metric).get("retention") or []

    def retention_after(self, metric: str, trip: int) -> float | None:
        """Retention by this metric after one trip; None if the trip was not scored."""
        retention = self.retention(metric)
        return retention[trip - 1] if trip <= len(retention) else None

    def retentions_after(self, trip: int) -> dict[str, float]:
        """Return the retention after one trip, by each metric that scored this trip."""
        retentions = {name: self.retention_after(name, trip) for name in in_order(self.results)}
        return {name: share for name, share in retentions.items() if share is not None}

    def summarise(self) -> None:
        """Set cause, usable trips and AUC from the headline's results; does not save."""
        numbers = self.numbers(self.headline)
        event = (numbers.get("events") or {}).get(f"{DEFAULT_THRESHOLD:g}") or {}
        self.cause = event.get("cause") or ""
        self.usable_trips, self.auc = event.get("time"), numbers.get("auc")


class TripQuerySet(models.QuerySet["Trip"]):
    def answers(self, chains: Collection[int]) -> dict[int, list[StoredImage]]:
        """Return all images with which the model answered, in order, for each chain."""
        by_chain: dict[int, list[StoredImage]] = defaultdict(list)
        inner: dict[tuple[int, int], list[StoredImage | None]] = defaultdict(list)
        steps = TripStep.objects.filter(chain__in=chains).select_related("image")
        for step in steps.order_by("place"):
            inner[step.chain_id, step.number].append(step.image)
        trips = self.filter(chain__in=chains).select_related("edited", "restored")
        for trip in trips.order_by("number"):
            images = (trip.edited, *inner[trip.chain_id, trip.number], trip.restored)
            by_chain[trip.chain_id] += [image for image in images if image]
        return by_chain


class Trip(models.Model):
    """Trip n of a chain: edited image Yn and restored image Xn.

    Yn answers the trip's first step, Xn its last. Answers to inner steps are `TripStep` rows.
    """

    chain = models.ForeignKey(Chain, models.CASCADE, related_name="trips")
    number = models.PositiveSmallIntegerField()
    edited = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    restored = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    edited_seed = models.PositiveIntegerField(null=True)
    restored_seed = models.PositiveIntegerField(null=True)
    edited_seconds = models.FloatField(null=True)
    restored_seconds = models.FloatField(null=True)
    edited_notes = models.JSONField(default=dict)
    restored_notes = models.JSONField(default=dict)
    reframed = models.BooleanField(default=False)
    change_seen = models.BooleanField(null=True)
    change_measure = models.JSONField(default=dict)
    step = models.FloatField(
        null=True, help_text="RMSE between this restored image and the previous restored image."
    )
    from_source = models.FloatField(
        null=True, help_text="RMSE between this restored image and the source."
    )
    because = models.CharField(
        max_length=20, blank=True, help_text="The part of the headline metric that lost most."
    )
    window = models.JSONField(
        null=True,
        help_text="The region where the part in `because` lost most, [left, top, right, bottom] as "
        "shares of the image; null: the whole image.",
    )
    undo = models.FloatField(null=True, help_text="Retention within the region of the edit.")
    evidence = models.JSONField(
        default=list,
        help_text="What each witness (an automatic check) says: was the edit made, was it undone.",
    )
    steps = models.JSONField(
        default=list, help_text="Measures of each step's image; empty for a trip of two steps."
    )
    scored_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TripQuerySet.as_manager()

    class Meta:
        ordering = ("number",)
        constraints = [models.UniqueConstraint(fields=("chain", "number"), name="trip_number")]

    def __str__(self) -> str:
        return f"trip {self.number} of {self.chain_id}"

    @staticmethod
    def answer_fields(
        name: str,
        image: StoredImage | None,
        seed: int | None,
        seconds: float | None,
        notes: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the fields of an answer; `name` is "edited" or "restored"."""
        return {
            name: image,
            f"{name}_seed": seed,
            f"{name}_seconds": seconds,
            f"{name}_notes": notes,
        }

    @property
    def measures(self) -> TripMeasures:
        return TripMeasures.model_construct(**{name: getattr(self, name) for name in MEASURES})


class TripStepQuerySet(models.QuerySet["TripStep"]):
    def under_way(self, played: Mapping[int, int]) -> dict[int, list[StoredImage]]:
        """Return the answers to inner steps of each chain's unfinished trip.

        `played` maps a chain to the number of its finished trips.
        """
        by_chain: dict[int, list[StoredImage]] = defaultdict(list)
        for step in self.filter(chain__in=played).select_related("image").order_by("place"):
            if step.number == played[step.chain_id] + 1 and step.image:
                by_chain[step.chain_id].append(step.image)
        return by_chain


class TripStep(models.Model):
    """The answer to an inner step of a trip with more than two steps."""

    chain = models.ForeignKey(Chain, models.CASCADE, related_name="steps")
    number = models.PositiveSmallIntegerField(help_text="Number of the trip.")
    place = models.PositiveSmallIntegerField(help_text="Position in the trip, at least 2.")
    name = models.CharField(max_length=8)
    image = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    seed = models.PositiveIntegerField(null=True)
    seconds = models.FloatField(null=True)
    notes = models.JSONField(default=dict)

    objects = TripStepQuerySet.as_manager()

    class Meta:
        ordering = ("number", "place")
        constraints = [
            models.UniqueConstraint(fields=("chain", "number", "place"), name="trip_step")
        ]

    def __str__(self) -> str:
        return f"step {self.name} of trip {self.number} of {self.chain_id}"


class Score(models.Model):
    """The distance between the source and one restored image, by one metric."""

    trip = models.ForeignKey(Trip, models.CASCADE, related_name="scores")
    metric = models.ForeignKey("leaderboard.MetricVersion", models.PROTECT, related_name="scores")
    distance = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=("trip", "metric"), name="score_metric")]

    def __str__(self) -> str:
        return f"{self.metric} {self.distance:.4f}"


class Call(models.Model):
    """A ledger entry: one attempt to edit an image.

    The row is stored before the call is made, so that a killed worker's call is listed too.
    """

    CALLING, ANSWERED, REFUSED, LOST = "calling", "answered", "refused", "lost"
    #: The image was computed by a known operator (a synthetic step): no call was made.
    SYNTHETIC = "ours"

    run = models.ForeignKey(Run, models.CASCADE, related_name="ledger")
    chain = models.ForeignKey(Chain, models.CASCADE, related_name="ledger")
    number = models.PositiveSmallIntegerField()
    direction = models.CharField(max_length=8)
    attempt = models.PositiveSmallIntegerField(default=1)
    outcome = models.CharField(
        max_length=16, help_text="calling, answered, refused, lost, ours (no call), or a fault."
    )
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


class Audit(models.Model):
    """One audit: planned when the run starts, sent to the model while the chain is played."""

    class Kind(models.TextChoices):
        """The request: an unseen image, a painted mark to be kept, or a harmless alteration."""

        COLD = "cold", "Cold"
        MARK = "mark", "Mark"
        FRAGILITY = "fragility", "Fragility"

    class Outcome(models.TextChoices):
        PLANNED = "", "Planned"
        ANSWERED = "answered", "Answered"
        REFUSED = "refused", "Refused"
        FAILED = "failed", "No usable answer"

    chain = models.ForeignKey(Chain, models.CASCADE, related_name="audits")
    number = models.PositiveSmallIntegerField(
        help_text="The trip whose edited image is altered; 0: before the first trip."
    )
    kind = models.CharField(max_length=10, choices=Kind)
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True)
    words = models.CharField(max_length=200, blank=True, help_text="The alteration of the image.")
    sent = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    answer = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="+")
    seed = models.PositiveIntegerField(null=True)
    seconds = models.FloatField(null=True)
    finding = models.JSONField(
        default=dict, help_text="The share of the painted mark that was kept, and the loss."
    )

    class Meta:
        ordering = ("chain__case__position", "number")
        constraints = [models.UniqueConstraint(fields=("chain", "number"), name="audit_number")]

    def __str__(self) -> str:
        return f"{self.kind} audit of trip {self.number} of {self.chain_id}"

    @property
    def planned(self) -> PlannedAudit:
        """The audit as the harness represents it; needs the chain's case."""
        kind: Any = self.kind
        return PlannedAudit(self.chain.case.slug, self.chain.repeat, self.number, kind)


class JudgeAnswerQuerySet(models.QuerySet["JudgeAnswer"]):
    def estimate(self, chains: int, trips: int) -> Estimate:
        """Estimate from the latest answers what judging this many chains will cost."""
        latest = self.filter(outcome="answered").order_by("-pk")[:LATEST_ANSWERS]
        means = latest.aggregate(usd=models.Avg("cost"), seconds=models.Avg("seconds"))
        return estimate(max_calls(chains, trips), means["usd"], means["seconds"])


class JudgeAnswer(models.Model):
    """A judge's answer; `key` is the hash of judge, question and images."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="judge_answers")
    key = models.CharField(max_length=64)
    question = models.CharField(max_length=20)
    version = models.CharField(
        max_length=200, help_text="The model, and the hash of the questions."
    )
    outcome = models.CharField(max_length=12, help_text="answered, refused or unreadable.")
    text = models.TextField(blank=True)
    cost = models.FloatField(null=True)
    seconds = models.FloatField(default=0)
    about = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = JudgeAnswerQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        constraints = [models.UniqueConstraint(fields=("run", "key"), name="judge_answer_once")]

    def __str__(self) -> str:
        return f"{self.question}, {self.about}: {self.outcome}"
