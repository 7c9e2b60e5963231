"""Figures of the board, computed when a run ends. A standing is a run's result by a metric."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import models

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.measuring.calibration import Calibration as SourceCalibration
from leaderboard.models.runs import Run
from leaderboard.models.suites import Suite


class MetricVersion(models.Model):
    """A metric as it was run: its code version and its weights."""

    name = models.CharField(max_length=20)
    version = models.CharField(max_length=40)
    weights_sha256 = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ("name", "version")
        constraints = [
            models.UniqueConstraint(
                fields=("name", "version", "weights_sha256"), name="metric_version"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class CalibrationManager(models.Manager["Calibration"]):
    def store(
        self, pixels_sha256: str, computed: Mapping[MetricVersion, SourceCalibration]
    ) -> None:
        """Store a source's new calibrations."""
        self.bulk_create(
            (
                Calibration(
                    pixels_sha256=pixels_sha256,
                    metric=metric,
                    blank=calibration.blank,
                    ladder={str(q): d for q, d in calibration.ladder.items()},
                    stored=calibration.stored,
                )
                for metric, calibration in computed.items()
            ),
            ignore_conflicts=True,
        )


class Calibration(models.Model):
    """A metric's distances from an image to its mean colour and to its JPEG copies."""

    pixels_sha256 = models.CharField(max_length=64)
    metric = models.ForeignKey(MetricVersion, models.CASCADE, related_name="calibrations")
    blank = models.FloatField(help_text="Distance between the image and its mean colour.")
    ladder = models.JSONField(default=dict, help_text="JPEG quality → distance.")
    stored = models.JSONField(
        null=True, help_text="Cached measurements of the image, slow to compute."
    )

    objects = CalibrationManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("pixels_sha256", "metric"), name="calibration")
        ]

    def __str__(self) -> str:
        return f"{self.metric} of {self.pixels_sha256[:12]}"


class CurrentMethod(models.Manager["Standing"]):
    """Standings by the current method version, so that no page mixes versions."""

    def get_queryset(self) -> models.QuerySet[Standing]:
        return super().get_queryset().filter(method_version=METHOD_VERSION)


#: The fields of a rank on the board, which ranking writes.
RANK_FIELDS = ("rank", "rank_low", "rank_high", "tier", "p_first")
#: The same fields for the rank among the runs that this site played ("run here").
RANK_FIELDS_HERE = tuple(f"{name}_here" for name in RANK_FIELDS)


class Standing(models.Model):
    """A run's result by one metric at one threshold in one scope, with intervals and rank.

    A scope is a set of cases, such as all cases or a category.

    A half-life of None is longer than the suite's trips ("> N"). So is a bound of None, if
    `has_interval` is True; scopes with too few images or pairs have no interval.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="standings")
    metric = models.ForeignKey(MetricVersion, models.PROTECT, related_name="standings")
    threshold = models.FloatField()
    scope = models.CharField(
        max_length=100, default="all", help_text="all, category:…, kind:…, origin:… or pair:…"
    )
    half_life = models.FloatField(null=True)
    half_life_low = models.FloatField(null=True)
    half_life_high = models.FloatField(null=True)
    usable_trips = models.FloatField()
    usable_trips_low = models.FloatField(null=True)
    usable_trips_high = models.FloatField(null=True)
    auc = models.FloatField(null=True, help_text="None if chains were stopped early.")
    auc_low = models.FloatField(null=True)
    auc_high = models.FloatField(null=True)
    has_interval = models.BooleanField(default=False)
    usable_by_trip = models.JSONField(default=list, help_text="Usable trips until trip n = 0..N.")
    survival = models.JSONField(default=list, help_text="Share of cases still usable at n = 0..N.")
    incidence = models.JSONField(
        default=dict, help_text="For each cause: the share of cases that it ended until n = 0..N."
    )
    rank = models.PositiveSmallIntegerField(null=True)
    rank_low = models.PositiveSmallIntegerField(null=True)
    rank_high = models.PositiveSmallIntegerField(null=True)
    tier = models.CharField(max_length=3, null=True)
    p_first = models.FloatField(null=True)
    rank_here = models.PositiveSmallIntegerField(null=True)
    rank_low_here = models.PositiveSmallIntegerField(null=True)
    rank_high_here = models.PositiveSmallIntegerField(null=True)
    tier_here = models.CharField(max_length=3, null=True)
    p_first_here = models.FloatField(null=True)
    curve = models.JSONField(
        default=dict, help_text='Mean retention for n = 0..N: {"mean", "low", "high"}.'
    )
    counts = models.JSONField(default=dict)
    details = models.JSONField(
        default=dict, help_text="Only in the scope all: dynamics, JPEG equivalent, extremes."
    )
    method_version = models.CharField(max_length=20)
    computed_at = models.DateTimeField(auto_now=True)

    objects = CurrentMethod()
    all_versions = models.Manager["Standing"]()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("run", "metric", "threshold", "scope"), name="standing")
        ]
        indexes = [
            models.Index(fields=("scope", "threshold", "metric")),
            # Read on every page view, to check whether the cached board is current.
            models.Index(fields=("computed_at",)),
        ]

    def __str__(self) -> str:
        return f"{self.run} by {self.metric} at {self.threshold:g}, {self.scope}"

    def use_place_here(self) -> None:
        """Replace the rank by the rank among "run here" runs; does not save."""
        for name, name_here in zip(RANK_FIELDS, RANK_FIELDS_HERE, strict=True):
            setattr(self, name, getattr(self, name_here))


class CaseValues(models.Model):
    """Usable trips of each case of a run, from which runs are ranked and compared.

    The values are float64, in the order of `Suite.core.cases`; NaN if the metric does not apply to
    the case. They have a table of their own, so that pages do not read them with the standings.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="case_values")
    metric = models.ForeignKey(MetricVersion, models.PROTECT, related_name="+")
    threshold = models.FloatField()
    usable_trips = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=("run", "metric", "threshold"), name="case_values")
        ]

    def __str__(self) -> str:
        return f"cases of {self.run_id} by {self.metric} at {self.threshold:g}"


class NoReferenceResult(models.Model):
    """A run's results by no-reference metrics, which rate an image without its source."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="no_reference")
    numbers = models.JSONField(
        default=dict,
        help_text="For each metric: how often it rates restored images below the source, and its "
        "curve.",
    )
    computed_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [models.Index(fields=("computed_at",))]

    def __str__(self) -> str:
        return f"no-reference metrics of {self.run_id}"

    @property
    def model_name(self) -> str:
        return self.run.editing_model.name

    @property
    def lost(self) -> float:
        """The mean loss (1 - retention) after the last trip: the largest over the metrics."""
        ends = (numbers["lost"][-1] for numbers in self.numbers.values())
        return max((end for end in ends if end is not None), default=0.0)


class PublishedFigure(models.Model):
    """A figure from a publication, for context lines in charts."""

    model_name = models.CharField(max_length=120)
    metric = models.CharField(max_length=20)
    trip = models.PositiveSmallIntegerField()
    value = models.FloatField(help_text="As published, on the metric's own scale.")
    cases = models.PositiveIntegerField(
        null=True, blank=True, help_text="The number of cases that the value averages."
    )
    source = models.CharField(max_length=300)
    source_url = models.URLField(max_length=500)
    published_on = models.DateField(null=True, blank=True)
    notes = models.CharField(max_length=300, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("model_name", "metric", "trip")
        constraints = [
            models.UniqueConstraint(
                fields=("model_name", "metric", "trip", "source"), name="published_figure"
            )
        ]

    def __str__(self) -> str:
        return f"{self.model_name}: {self.metric} {self.value:g} after {self.trip}"


class SuiteReport(models.Model):
    """A suite's statistical power, and the robustness of its board's order."""

    suite = models.OneToOneField(Suite, models.CASCADE, related_name="report")
    power = models.JSONField(
        default=dict, help_text="The difference in usable trips detected with 80 % power."
    )
    robustness = models.JSONField(
        default=dict,
        help_text="Kendall's tau between the board's order and the orders by other metrics, "
        "thresholds and cases, and in a retest.",
    )
    method_version = models.CharField(max_length=20)
    computed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"report on {self.suite}"


class BoardRecordQuerySet(models.QuerySet["BoardRecord"]):
    def public(self) -> BoardRecordQuerySet:
        """Return records of runs that are public now."""
        return self.filter(run__in=Run.objects.public())


class BoardRecord(models.Model):
    """A run's standing by the headline metric (overall) from `at` on; added on each change.

    Rows are never changed or deleted, so that the board of any day can be shown again.
    """

    class Kind(models.TextChoices):
        ADDED = "added", "New on the board"
        AGAIN = "again", "Played again"
        MOVED = "moved", "Rank changed"
        NUMBERS = "numbers", "Numbers changed"
        LEFT = "left", "No longer on the board"

    run = models.ForeignKey(Run, models.CASCADE, related_name="records")
    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=8, choices=Kind)
    rank = models.PositiveSmallIntegerField(null=True, help_text="None: listed, not ranked.")
    rank_before = models.PositiveSmallIntegerField(null=True)
    half_life = models.FloatField(null=True, help_text="None: longer than the suite's trips.")
    usable_trips = models.FloatField()

    objects = BoardRecordQuerySet.as_manager()

    class Meta:
        ordering = ("-at", "-pk")

    def __str__(self) -> str:
        return f"{self.run}: {self.get_kind_display().lower()}, {self.at:%Y-%m-%d}"
