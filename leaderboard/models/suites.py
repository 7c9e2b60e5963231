"""The benchmark itself: source images, edit pairs, suites and their cases."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Coalesce
from django.urls import reverse
from simple_history.models import HistoricalRecords

from evaluation.analysis.stopping import MAX_STOP_AFTER
from evaluation.audits.plan import audit_count
from evaluation.caches import LruCache
from evaluation.content import suites as core
from evaluation.content.annotations import Annotations
from evaluation.content.datasheet import POSES
from evaluation.content.edit_types import BY_FAMILY, difficulty
from evaluation.content.placement import PLACES
from evaluation.content.shapes import BACKWARD, FORWARD, Step
from leaderboard.models.images import StoredImage

#: The number of audits (extra calls that test for cheating) of a suite, by its content hash.
#: Cached, because estimates are frequent and counting reads a long definition.
_AUDIT_COUNTS: LruCache[int] = LruCache(32)


class Kind(models.TextChoices):
    FACE = "face", "Face"
    OBJECT = "object", "Object"
    SCENE = "scene", "Scene"


class Origin(models.TextChoices):
    PHOTOGRAPH = "photograph", "Photograph"
    PAINTING = "painting", "Painting"
    RENDER = "render", "Render"
    GENERATED = "generated", "AI-made"


class Category(models.TextChoices):
    ACCESSORIES = "accessories", "Accessories"
    APPEARANCE = "appearance", "Clothing, hair and face"
    OBJECTS = "objects", "Objects"
    COLOUR = "colour", "Colour"
    LIGHT = "light", "Light, weather and season"
    STYLE = "style", "Style"
    TEXT = "text", "Text"
    GEOMETRY = "geometry", "Geometry"
    REPLICATION = "replication", "Replication"
    RESTORATION = "restoration", "Restoration"


class Curation(models.TextChoices):
    DRAFT = "draft", "Draft"
    ACTIVE = "active", "Active"
    RETIRED = "retired", "Retired"


class SourceImage(models.Model):
    """A source image with its origin."""

    class Made(models.TextChoices):
        REAL = "real", "Real"
        RENDERED = "rendered", "Rendered"
        GENERATED = "generated", "Generated"

    slug = models.SlugField(max_length=80, unique=True)
    title = models.CharField(max_length=200)
    stored = models.ForeignKey(
        StoredImage, models.PROTECT, related_name="source_images", editable=False
    )
    kind = models.CharField(max_length=16, choices=Kind)
    subkind = models.CharField(max_length=40, blank=True, help_text="Free text: portrait, cat …")
    made = models.CharField(max_length=16, choices=Made, default=Made.REAL)
    origin = models.CharField(
        max_length=300, blank=True, help_text="Package or file that the image was loaded from."
    )
    author = models.CharField(max_length=200, blank=True)
    licence = models.CharField(max_length=80)
    attribution = models.TextField(blank=True)
    source_url = models.URLField(max_length=500, blank=True)
    contains = models.JSONField(
        default=list,
        blank=True,
        help_text='Objects in the image that edit pairs may name, such as ["chair", "cup"].',
    )
    pose = models.CharField(
        max_length=16,
        blank=True,
        choices=[(name, name.capitalize()) for name in POSES],
        help_text="For a single face. Frontal: both cheeks equally wide; three-quarter: both eyes "
        "visible; profile: one eye visible.",
    )
    annotations = models.JSONField(
        default=dict,
        blank=True,
        help_text="Positions of the image's face, free floor, wall, sky, surfaces and text.",
    )
    perceptual_hash = models.CharField(max_length=64, blank=True, editable=False, db_index=True)
    status = models.CharField(
        max_length=16, choices=Curation, default=Curation.DRAFT, db_index=True
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    history = HistoricalRecords()

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.title

    def clean(self) -> None:
        try:
            Annotations.from_dict(self.annotations)
        except ValueError as error:
            raise ValidationError({"annotations": f"{error}."}) from error

    @property
    def places(self) -> Annotations:
        """The annotated places of the image."""
        return Annotations.from_dict(self.annotations)


class EditPair(models.Model):
    """A forward prompt and its inverse."""

    class Change(models.TextChoices):
        EXACT = "exact", "Exact: a known operator"
        LOCAL = "local", "Local: something appears in one place"
        GLOBAL = "global", "Global: the whole image changes"
        NONE = "none", "None: nothing should change"
        OPERATOR = "operator", "Operator: we degrade the image, the model restores it"

    class Reversibility(models.TextChoices):
        EXACT = "exact", "Exact"
        CLEAN = "clean", "Clean"
        PARTIAL = "partial", "Partial"
        DESTROYS = "destroys", "Destroys"
        INVENTS = "invents", "Invents"

    class Operator(models.TextChoices):
        FLIP_HORIZONTAL = "flip_horizontal", "Flip left-right"
        FLIP_VERTICAL = "flip_vertical", "Flip top-bottom"
        ROTATE_90 = "rotate_90", "Rotate 90° clockwise"
        ROTATE_270 = "rotate_270", "Rotate 90° anticlockwise"
        ROTATE_180 = "rotate_180", "Rotate 180°"

    slug = models.SlugField(max_length=80, unique=True)
    title = models.CharField(max_length=120)
    category = models.CharField(max_length=20, choices=Category, db_index=True)
    type = models.CharField(max_length=40, choices=BY_FAMILY, blank=True)
    forward = models.TextField(max_length=1000)
    backward = models.TextField(max_length=1000)
    change = models.CharField(max_length=8, choices=Change, default=Change.LOCAL)
    reversibility = models.CharField(
        max_length=12, choices=Reversibility, default=Reversibility.CLEAN
    )
    operator = models.CharField(max_length=20, choices=Operator, blank=True)
    object = models.CharField(
        max_length=40, blank=True, help_text="The object that appears, in one or two words."
    )
    place = models.CharField(
        max_length=12,
        choices=[(place, place.capitalize()) for place in PLACES],
        blank=True,
        help_text="Where the edit happens. Only images with this place annotated are used.",
    )
    witness = models.CharField(
        max_length=80,
        blank=True,
        help_text="The witness (an automatic check of the edit) and its target, such as "
        "detector:chair.",
    )
    shape = models.CharField(
        max_length=100,
        blank=True,
        help_text="For trips of more than two steps, such as A B b a. A small letter undoes the "
        "edit of its capital; = marks where the image should equal the source. Empty: forward, "
        "then backward.",
    )
    steps = models.JSONField(
        default=list,
        blank=True,
        help_text='The prompt of each letter: [{"name": "A", "prompt": "…", "change": "local", '
        '"object": "cup"}, {"name": "a", "prompt": "…"}].',
    )
    against = models.SlugField(
        max_length=80,
        blank=True,
        help_text="The pair with the same edits in another order, for comparison.",
    )
    source_text = models.CharField(
        max_length=200, blank=True, help_text="What CLIP should see before the edit."
    )
    target_text = models.CharField(
        max_length=200, blank=True, help_text="What CLIP should see after the edit."
    )
    kinds = models.JSONField(
        default=list, blank=True, help_text='Kinds of images, such as ["face"]; empty: all kinds.'
    )
    absent = models.JSONField(
        default=list, blank=True, help_text='Objects an image must not contain: ["chair", "sofa"].'
    )
    present = models.JSONField(
        default=list, blank=True, help_text='Things an image must contain, such as ["brown hair"].'
    )
    variants = models.JSONField(
        default=list,
        blank=True,
        help_text='Other wordings: [{"name": "short", "forward": "…", "backward": "…"}].',
    )
    status = models.CharField(
        max_length=16, choices=Curation, default=Curation.DRAFT, db_index=True
    )
    notes = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    history = HistoricalRecords()

    class Meta:
        ordering = ("category", "slug")

    def __str__(self) -> str:
        return self.title

    def clean(self) -> None:
        needs_operator = self.change in (self.Change.EXACT, self.Change.OPERATOR)
        if needs_operator != bool(self.operator):
            raise ValidationError(
                {
                    "operator": "Required for exact and operator changes; leave it empty for other changes."
                }
            )
        try:
            self.as_core().cycle  # noqa: B018, raises if the shape is invalid
        except (TypeError, ValueError) as error:
            field = "steps" if str(error).startswith("steps") else "shape"
            raise ValidationError({field: f"{error}."}) from error

    def as_core(self) -> core.EditPair:
        """Return the pair as the harness represents it."""
        values = {field.name: getattr(self, field.name) for field in fields(core.EditPair)}
        values |= {name: tuple(values[name]) for name in ("kinds", "absent", "present")}
        values["steps"] = tuple(Step(**step) for step in self.steps)
        return core.EditPair(**values)

    @property
    def difficulty(self) -> int:
        """The predicted difficulty, 1 to 5."""
        return difficulty(self.as_core())


class Frozen(ValueError):
    """An attempt to change a frozen suite."""


#: The suite that every new installation plays.
SELF_TEST = "smoke"


class SuiteQuerySet(models.QuerySet["Suite"]):
    def frozen(self) -> SuiteQuerySet:
        """Return frozen suites whose images may be shown; `sealed` returns the other frozen ones."""
        return self.filter(status=Suite.Status.FROZEN, sealed=False)

    def sealed(self) -> SuiteQuerySet:
        return self.filter(status=Suite.Status.FROZEN, sealed=True)

    def startable(self) -> SuiteQuerySet:
        """Return the suites that staff can play: all frozen ones of this site, also sealed ones."""
        return self.filter(status=Suite.Status.FROZEN, published_elsewhere=False)

    def playable(self) -> SuiteQuerySet:
        """Return this site's frozen suites that may be shown, most important first."""
        return self.frozen().filter(published_elsewhere=False)

    def with_edits(self) -> SuiteQuerySet:
        """Annotate suites with `edit_count`, the number of edits of one run."""
        cases = Case.objects.filter(suite=models.OuterRef("pk")).order_by().values("suite")
        edits = cases.annotate(number=models.Sum(models.F("repeats") * models.F("edits")))
        return self.annotate(edit_count=Coalesce(models.Subquery(edits.values("number")), 0))


class Suite(models.Model):
    """A list of cases, a number of trips and an image size; immutable after freezing."""

    class Status(models.TextChoices):
        DRAFT = "draft", "Draft"
        FROZEN = "frozen", "Frozen"

    slug = models.SlugField(max_length=60)
    version = models.PositiveSmallIntegerField(default=1)
    title = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    trips = models.PositiveSmallIntegerField(
        default=10, validators=[MinValueValidator(1), MaxValueValidator(100)]
    )
    size = models.PositiveSmallIntegerField(
        default=512,
        validators=[MinValueValidator(64), MaxValueValidator(2048)],
        help_text="A prepared image of any aspect ratio has about size² pixels in all.",
    )
    repeats = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(20)]
    )
    filters = models.JSONField(
        default=dict, blank=True, help_text="Criteria that select the cases of a draft."
    )
    importance = models.SmallIntegerField(
        default=0, help_text="The board opens on the most important suite that has results."
    )
    stop_after = models.PositiveSmallIntegerField(
        default=0,
        validators=[MaxValueValidator(MAX_STOP_AFTER)],
        help_text="Default for new runs: chains stop this many trips after their result is known. "
        "0: they never stop early. Stopping saves edits and changes no rank.",
    )
    published_elsewhere = models.BooleanField(
        default=False,
        help_text="Results published by others, shown with their source and never ranked.",
    )
    sealed = models.BooleanField(
        default=False,
        help_text="Only its numbers are public. Images, prompts and hash are never shown.",
    )
    source_url = models.URLField(max_length=500, blank=True)
    source_date = models.DateField(null=True, blank=True)
    status = models.CharField(
        max_length=12, choices=Status, default=Status.DRAFT, editable=False, db_index=True
    )
    definition = models.JSONField(null=True, editable=False)
    content_hash = models.CharField(max_length=64, blank=True, editable=False, db_index=True)
    changes = models.TextField(blank=True, help_text="Changes since the previous version.")
    frozen_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = SuiteQuerySet.as_manager()
    history = HistoricalRecords(excluded_fields=["definition"])

    #: Fields that may still change once the suite is frozen: presentation, not content.
    MUTABLE_WHEN_FROZEN = frozenset({"description", "importance", "stop_after", "updated_at"})

    class Meta:
        ordering = ("-importance", "slug", "-version")
        constraints = [
            models.UniqueConstraint(fields=("slug", "version"), name="suite_slug_version")
        ]

    def __str__(self) -> str:
        # Some titles end with the version and cannot change, since they are hashed.
        version = f"v{self.version}"
        return self.title if self.title.split()[-1:] == [version] else f"{self.title} {version}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk:
            self._guard_frozen()
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("suite", args=[self.slug, self.version])

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        if self.is_frozen:
            raise Frozen(f"{self} is frozen and cannot be deleted: results refer to it")
        return super().delete(*args, **kwargs)

    def _guard_frozen(self) -> None:
        """Raise Frozen if a save would change the content of a frozen suite."""
        before = Suite.objects.filter(pk=self.pk, status=self.Status.FROZEN).first()
        if before is None:
            return
        changed = [
            field.name
            for field in self._meta.concrete_fields
            if field.name not in self.MUTABLE_WHEN_FROZEN
            and getattr(before, field.attname) != getattr(self, field.attname)
        ]
        if changed:
            raise Frozen(
                f"{before} is frozen: {', '.join(changed)} cannot change; make a new version"
            )

    @property
    def key(self) -> str:
        return core.suite_key(self.slug, self.version)

    @property
    def is_self_test(self) -> bool:
        """Return True for the self-test, which is quick and free but ranks no models."""
        return self.slug == SELF_TEST

    @property
    def is_frozen(self) -> bool:
        return self.status == self.Status.FROZEN

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of cases, chains and edits of one run; audits are not counted."""
        sums = self.cases.aggregate(
            cases=models.Count("pk"),
            chains=models.Sum("repeats"),
            edits=models.Sum(models.F("repeats") * models.F("edits")),
        )
        return sums["cases"], sums["chains"] or 0, sums["edits"] or 0

    @property
    def audits(self) -> int:
        """The number of audits of one run; 0 for drafts and results published elsewhere."""
        if not self.content_hash:
            return 0
        minimum = settings.AUDITS
        return _AUDIT_COUNTS.get(
            (self.content_hash, minimum), lambda: audit_count(self.core, minimum)
        )

    @cached_property
    def edits_per_trip(self) -> float:
        """The mean number of edits per trip: two, unless some trips have inner steps."""
        _, chains, edits = self.counts
        return edits / (chains * self.trips) if edits else 2.0

    @cached_property
    def core(self) -> core.Suite:
        """The frozen suite as the harness represents it."""
        if self.definition is None:
            raise core.SuiteError(f"{self} is a draft; freeze it first")
        return core.Suite.from_dict(self.definition)


class SuiteImage(models.Model):
    """A source image prepared for a suite: cropped, at the suite's size."""

    suite = models.ForeignKey(Suite, models.CASCADE, related_name="images")
    slug = models.SlugField(max_length=80)
    source_image = models.ForeignKey(
        SourceImage, models.PROTECT, null=True, related_name="suite_images"
    )
    stored = models.ForeignKey(StoredImage, models.PROTECT, null=True, related_name="suite_images")
    pixels_sha256 = models.CharField(max_length=64, db_index=True)
    title = models.CharField(max_length=200)
    kind = models.CharField(max_length=16, choices=Kind)
    licence = models.CharField(max_length=80)
    attribution = models.TextField(blank=True)

    class Meta:
        ordering = ("slug",)
        constraints = [models.UniqueConstraint(fields=("suite", "slug"), name="suite_image_slug")]

    def __str__(self) -> str:
        return self.title


class Case(models.Model):
    """An image with an edit pair; its prompts were copied when the suite was frozen."""

    suite = models.ForeignKey(Suite, models.CASCADE, related_name="cases")
    slug = models.SlugField(max_length=170)
    image = models.ForeignKey(SuiteImage, models.CASCADE, related_name="cases")
    edit_pair = models.ForeignKey(EditPair, models.SET_NULL, null=True, related_name="cases")
    pair_slug = models.SlugField(max_length=80)
    pair_title = models.CharField(max_length=120)
    category = models.CharField(max_length=20, choices=Category)
    kind = models.CharField(max_length=16, choices=Kind)
    origin = models.CharField(max_length=16, choices=Origin, blank=True)
    forward = models.TextField()
    backward = models.TextField()
    position = models.PositiveSmallIntegerField(default=0)
    repeats = models.PositiveSmallIntegerField(default=1)
    edits = models.PositiveSmallIntegerField(default=0, help_text="Number of edits of one chain.")
    steps = models.JSONField(
        default=list, help_text="If trips have more than two steps: a list of steps for each trip."
    )

    class Meta:
        ordering = ("position",)
        constraints = [models.UniqueConstraint(fields=("suite", "slug"), name="suite_case_slug")]

    def __str__(self) -> str:
        return f"{self.image.title}: {self.pair_title}"

    def get_absolute_url(self) -> str:
        return reverse("case", args=[self.pk])

    def steps_of_trip(
        self, number: int, prompts: tuple[str, str] | None = None
    ) -> list[tuple[str, str, str]]:
        """Return the steps of a trip: name, letter and prompt of each.

        `prompts` replaces the two prompts of a plain round trip.
        """
        if not self.steps:
            forward, backward = prompts or (self.forward, self.backward)
            return [(FORWARD, "", forward), (BACKWARD, "", backward)]
        trip = self.steps[(number - 1) % len(self.steps)]
        return [(name, letter, prompt) for name, letter, prompt in trip]
