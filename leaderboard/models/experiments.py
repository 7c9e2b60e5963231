"""Experiments: a suite played in several ways, called arms, and the results."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.urls import reverse

from evaluation import arms as core
from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.editors.sizes import TIERS
from leaderboard.models.entries import EditingModel
from leaderboard.models.runs import Run
from leaderboard.models.suites import Suite


class ExperimentQuerySet(models.QuerySet["Experiment"]):
    def public(self) -> ExperimentQuerySet:
        """Return experiments open to every visitor; their runs have their own visibility."""
        return self.filter(published=True, started_at__isnull=False, suite__sealed=False)

    def visible_to(self, user: Any) -> ExperimentQuerySet:
        return self.all() if user.is_staff else self.public()


class Experiment(models.Model):
    """A question, a suite, the models that play it, and the arms to compare."""

    slug = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=120, help_text="A question: Does the wording matter?")
    question = models.TextField(
        blank=True, max_length=2000, help_text="The question and its reason; public."
    )
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="experiments")
    editing_models = models.ManyToManyField(EditingModel, related_name="experiments")
    repeats = models.PositiveSmallIntegerField(
        default=0,
        validators=[MaxValueValidator(core.MAX_REPEATS)],
        help_text="Repeats of each case in each arm; 0: as in the suite. With two or more, "
        "the page shows how much is chance.",
    )
    published = models.BooleanField(
        default=False, help_text="Visible to all visitors. Runs that are not public stay hidden."
    )
    started_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ExperimentQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("experiment", args=[self.slug])

    def clean(self) -> None:
        # The experiment's page would reveal the suite's secret images and wordings.
        if self.suite_id and self.suite.sealed:
            raise ValidationError(
                {"suite": "A sealed suite is secret and cannot be used in an experiment."}
            )


class ExperimentArm(models.Model):
    """One way to play the suite; the first arm is the baseline."""

    class Wording(models.TextChoices):
        PLAIN = "plain", "Plain: as in the suite"
        SHORT = "short", "Short"
        LONG = "long", "Long"
        COLLOQUIAL = "colloquial", "Colloquial"
        # Twelve prompts of a study of Nano Banana 2: pairs that restore an image have them as
        # variants. Fidelity: the prompt also asks to keep everything else.
        S1 = "s1", "S1: restore, short"
        S2 = "s2", "S2: restore, short"
        S3 = "s3", "S3: restore, short"
        SF1 = "sf1", "SF1: restore, short, with fidelity"
        SF2 = "sf2", "SF2: restore, short, with fidelity"
        SF3 = "sf3", "SF3: restore, short, with fidelity"
        L1 = "l1", "L1: restore, long"
        L2 = "l2", "L2: restore, long"
        L3 = "l3", "L3: restore, long"
        LF1 = "lf1", "LF1: restore, long, with fidelity"
        LF2 = "lf2", "LF2: restore, long, with fidelity"
        LF3 = "lf3", "LF3: restore, long, with fidelity"

    #: The fields that have the same name and type in the harness's `Arm`.
    SETTINGS = (
        "wording",
        "fidelity",
        "also",
        "seeds",
        "temperature",
        "session",
        "cleanup",
        "floor",
    )

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="arms")
    position = models.PositiveSmallIntegerField(default=0)
    name = models.CharField(
        max_length=40,
        validators=[RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9_-]*$", "Letters, digits, _ and -.")],
    )
    wording = models.CharField(max_length=12, choices=Wording, default=Wording.PLAIN)
    fidelity = models.BooleanField(
        default=False, help_text="“Keep everything else exactly the same.” after every prompt."
    )
    also = models.CharField(
        max_length=core.MAX_SENTENCE, blank=True, help_text="Another sentence after every prompt."
    )
    seeds = models.CharField(
        max_length=10, choices=list(core.SEED_WORDS.items()), default=core.DEFAULT.seeds
    )
    temperature = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0), MaxValueValidator(core.MAX_TEMPERATURE)],
    )
    size = models.CharField(
        max_length=12,
        blank=True,
        choices=[("", "As the images"), *((t, t) for t in TIERS), ("interleaved", "1K, 2K, 4K")],
        help_text="The requested size of answers; interleaved: it changes with each trip.",
    )
    session = models.CharField(
        max_length=12, choices=list(core.SESSIONS.items()), default=core.ALONE
    )
    cleanup = models.CharField(
        max_length=12, blank=True, choices=[("", "nothing"), *core.CLEANUPS.items()]
    )
    floor = models.BooleanField(
        default=False,
        help_text="No edits: images only pass through the autoencoder of a local model.",
    )
    runs = models.ManyToManyField(Run, related_name="experiment_arms", editable=False)

    class Meta:
        ordering = ("position", "pk")
        constraints = [
            models.UniqueConstraint(fields=("experiment", "name"), name="experiment_arm_name")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def core(self) -> core.Arm:
        """The arm as the harness represents it, without prompts: `resolved` fills them in.

        Raises ArmError if the arm is invalid.
        """
        settings = {name: getattr(self, name) for name in self.SETTINGS}
        size = {"size": self.size} if self.size else {}
        return core.Arm.from_dict(settings | size | {"repeats": self.experiment.repeats})


class ExperimentResult(models.Model):
    """The result of an experiment for one model by one metric."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="results")
    editing_model = models.ForeignKey(EditingModel, models.CASCADE, related_name="+")
    metric = models.CharField(max_length=20)
    numbers = models.JSONField()
    method_version = models.CharField(max_length=20, default=METHOD_VERSION)
    computed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("editing_model__name", "pk")
        constraints = [
            models.UniqueConstraint(
                fields=("experiment", "editing_model", "metric"), name="experiment_result"
            )
        ]

    def __str__(self) -> str:
        return f"{self.experiment}: {self.editing_model} by {self.metric}"
