"""Import of published numbers: single figures, and the table of edit-converge-bench.

Charts show figures as lines for context. The rows of github.com/Qianli-ion/edit-converge-bench
were published without images. They become a separate suite, which is shown with its source and
never ranked. Faults in the table are reported on import and in the suite's description.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from django import forms
from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)

from evaluation.metrics import full_reference_metrics, metric_class
from leaderboard import standings
from leaderboard.models import (
    Calibration,
    Case,
    Chain,
    EditingModel,
    MetricVersion,
    PublishedFigure,
    Run,
    Score,
    Suite,
    SuiteImage,
    Trip,
)
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.models.suites import Category, Kind

#: Fields of PublishedFigure by column of the imported table.
COLUMNS = {
    "model": "model_name",
    "metric": "metric",
    "trip": "trip",
    "value": "value",
    "cases": "cases",
    "source": "source",
    "url": "source_url",
    "date": "published_on",
    "notes": "notes",
}
OPTIONAL = ("cases", "date", "notes")
#: Fields that identify a figure: importing it again replaces it.
KEY = ("model_name", "metric", "trip", "source")


class FiguresError(ValueError):
    """A table that cannot be imported; the message names the invalid lines and fields."""


class FigureForm(forms.ModelForm):  # type: ignore[type-arg]
    source_url = forms.URLField(max_length=500, assume_scheme="https")
    trip = forms.IntegerField(min_value=1, max_value=1000)

    class Meta:
        model = PublishedFigure
        fields = tuple(COLUMNS.values())

    def clean_metric(self) -> str:
        name: str = self.cleaned_data["metric"]
        if name not in full_reference_metrics():
            raise forms.ValidationError(
                f"{name} is not one of {', '.join(full_reference_metrics())}."
            )
        return name

    def clean_value(self) -> float:
        value: float = self.cleaned_data["value"]
        if not math.isfinite(value):
            raise forms.ValidationError("Enter a number.")
        return value


def import_figures(path: Path) -> tuple[int, int]:
    """Import a table of figures; return how many were added and how many were replaced.

    Raises FiguresError, before anything is written, if a line is invalid.
    """
    seen: dict[tuple[Any, ...], int] = {}
    problems: list[str] = []
    checked: list[FigureForm] = []
    for line, row in _csv_rows(path, [name for name in COLUMNS if name not in OPTIONAL]):
        values = {field: row.get(name) or "" for name, field in COLUMNS.items()}
        form = FigureForm(values, instance=_stored_figure(values))
        if not form.is_valid():
            names = {field: column for column, field in COLUMNS.items()}
            problems += [
                f"line {line}, {names.get(field, field)}: {message}"
                for field, messages in form.errors.items()
                for message in messages
            ]
            continue
        key = tuple(form.cleaned_data[name] for name in KEY)
        if key in seen:
            problems.append(f"line {line}, model: this figure is already in line {seen[key]}.")
        seen[key] = line
        checked.append(form)
    if problems:
        raise FiguresError("\n".join(problems))
    replaced = sum(form.instance.pk is not None for form in checked)
    with transaction.atomic():
        for form in checked:
            form.save()
    return len(checked) - replaced, replaced


def _stored_figure(values: dict[str, str]) -> PublishedFigure | None:
    """Return the stored figure that these values replace, or None."""
    if not values["trip"].isdecimal():
        return None
    same = {name: values[name].strip() for name in KEY}
    return PublishedFigure.objects.filter(**same).first()


def _csv_rows(path: Path, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Return the rows with their line numbers. Raises FiguresError if a column is missing."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            missing = [name for name in columns if name not in (table.fieldnames or ())]
            if missing:
                raise FiguresError(f"{path.name} lacks the columns {', '.join(missing)}")
            return [(table.line_num, row) for row in table]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FiguresError(f"{path.name} is not a CSV table: {error}") from None


# The table of edit-converge-bench.

SLUG = "edit-converge-bench"
SOURCE = "https://github.com/Qianli-ion/edit-converge-bench"
PUBLISHED_ON = datetime.date(2026, 2, 1)
#: The mean SSIM of a blank card, an image in the source's mean colour (docs/method.md). The images
#: are not published, so the blank card of each image cannot be scored.
BLANK_SSIM = 0.59
NOT_GIVEN = "The published rows do not give the wording."
SCORES = ("psnr", "ssim", "lpips", "clip_similarity")
#: Our categories by their names in the table.
CATEGORIES: dict[str, str] = {
    **{name: name for name in Category.values},
    "scene_objects": Category.OBJECTS,
    "geometric": Category.GEOMETRY,
}
KINDS = {"portrait": Kind.FACE, "scene": Kind.SCENE, "object": Kind.OBJECT}
MAX_ROWS = 200_000
#: Model, image and edit pair.
ChainKey = tuple[str, str, str]
Name = Annotated[str, StringConstraints(pattern=r"^[\w.-]{1,60}$")]


class PublishedRow(BaseModel):
    """A line of the table; the fields have the names of its columns."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    model: Name
    image: Name
    edit_pair: Name
    image_type: Literal["portrait", "scene", "object"]
    edit_category: Name
    round: Annotated[int, Field(ge=1, le=100)]
    psnr: float
    ssim: Annotated[float, Field(le=1)]
    lpips: float
    clip_similarity: float

    @field_validator("edit_category")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in CATEGORIES:
            raise ValueError(f"is not one of {', '.join(CATEGORIES)}")
        return name


@dataclass
class PublishedTable:
    """The table's rows without duplicates, and remarks on its faults."""

    rows: list[PublishedRow]
    #: For each model, image and pair: its repeats, each as SSIM by round.
    chains: dict[ChainKey, list[dict[int, float]]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def trips(self) -> int:
        return max(row.round for row in self.rows)

    @property
    def models(self) -> list[str]:
        return sorted({model for model, _, _ in self.chains})

    @property
    def content_hash(self) -> str:
        """The hash of the rows in order."""
        return hashlib.sha256("\n".join(map(repr, self.rows)).encode()).hexdigest()


def read_table(path: Path) -> PublishedTable:
    """Read the table of edit-converge-bench. Raises FiguresError if it is invalid."""
    rows = [_row(row, line) for line, row in _csv_rows(path, list(PublishedRow.model_fields))]
    if not rows:
        raise FiguresError(f"{path.name} has no rows")
    if len(rows) > MAX_ROWS:
        raise FiguresError(f"{path.name} has more than {MAX_ROWS:,} rows")
    published = PublishedTable(list(dict.fromkeys(rows)))
    if count := len(rows) - len(published.rows):
        published.remarks.append(
            f"{count:,} of {len(rows):,} rows are exact duplicates and were counted once."
        )
    _note_constant_scores(published)
    _group_into_chains(published)
    _note_cases(published)
    return published


def _row(line: dict[str, str], number: int) -> PublishedRow:
    try:
        return PublishedRow.model_validate(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field, given = first["loc"][0], str(first["input"])[:60]
        raise FiguresError(f"line {number}, {field}: {given!r}: {first['msg']}") from None


def _note_constant_scores(published: PublishedTable) -> None:
    """Note metrics that have the same value in every row: they were never computed."""
    for name in SCORES:
        values = {getattr(row, name) for row in published.rows}
        if len(values) == 1 and len(published.rows) > 1:
            value = values.pop()
            published.remarks.append(
                f"{name} is {value:g} in every row: it was never computed and is left out."
            )
            if name == "ssim":
                raise FiguresError("ssim is the same in every row, but only ssim can be imported")


def _group_into_chains(published: PublishedTable) -> None:
    """Group the rows into chains. Several rows of the same round are repeats of the case."""
    chains: dict[ChainKey, list[dict[int, float]]] = defaultdict(list)
    for row in published.rows:
        played = chains[row.model, row.image, row.edit_pair]
        repeat = next((chain for chain in played if row.round not in chain), None)
        if repeat is None:
            repeat = {}
            played.append(repeat)
        repeat[row.round] = row.ssim
    # Rounds after a gap are dropped.
    gaps = 0
    for key, played in chains.items():
        without_gaps = []
        for chain in played:
            length = next(n for n in range(1, len(chain) + 2) if n not in chain) - 1
            gaps += length < len(chain)
            without_gaps.append({n: chain[n] for n in range(1, length + 1)})
        published.chains[key] = [chain for chain in without_gaps if chain]
    if gaps:
        published.remarks.append(f"{gaps} chains have gaps and were cut at the first gap.")


def _note_cases(published: PublishedTable) -> None:
    """Note repeats, models with different cases, and chains that stop early."""
    repeats = sum(len(played) - 1 for played in published.chains.values() if played)
    if repeats:
        published.remarks.append(
            f"{repeats} chains repeat a case and count as repeats, not as cases."
        )
    cases: Counter[str] = Counter(model for model, _, _ in published.chains)
    total = len({(image, pair) for _, image, pair in published.chains})
    if set(cases.values()) != {total}:
        each = ", ".join(f"{model} {count}" for model, count in sorted(cases.items()))
        published.remarks.append(
            f"The models were not run on the same cases. Cases per model, of {total}: {each}. "
            "The models' results are shown together but not compared."
        )
    short = sum(len(c) < published.trips for played in published.chains.values() for c in played)
    if short:
        published.remarks.append(
            f"{short} chains end before round {published.trips} without a stated reason; the "
            "statistics treat their further rounds as unknown."
        )


def _description(published: PublishedTable) -> str:
    """Return the suite's description, with the source of its numbers and their faults."""
    return "\n\n".join(
        [
            "Scores published by the authors of edit-converge-bench. They are never ranked: images "
            "and prompts differ from ours, and the images are not published.",
            "Noticed on import: " + " ".join(published.remarks),
            f"Retention is computed from SSIM, where 0 % is {BLANK_SSIM}: the average SSIM of a "
            "blank card (one colour), because the images' own blank cards are not known. It is not "
            "known either whether the edits were made.",
        ]
    )


@transaction.atomic
def store_table(published: PublishedTable) -> tuple[Suite, bool]:
    """Store the table as a suite with its runs. Returns the suite, and True if it is new."""
    versions = Suite.objects.filter(slug=SLUG).order_by("-version")
    same = versions.filter(content_hash=published.content_hash).first()
    if same:
        return same, False
    newest = versions.first()
    suite = Suite.objects.create(
        slug=SLUG,
        version=newest.version + 1 if newest else 1,
        title="edit-converge-bench (published elsewhere)",
        description=_description(published),
        trips=published.trips,
        published_elsewhere=True,
        source_url=SOURCE,
        source_date=PUBLISHED_ON,
        importance=-10,
        status=Suite.Status.FROZEN,
        content_hash=published.content_hash,
        frozen_at=timezone.now(),
    )
    metric = MetricVersion.objects.get_or_create(
        name="ssim", version=f"published {PUBLISHED_ON:%Y-%m}", weights_sha256=""
    )[0]
    cases = _cases(suite, published, metric)
    for model in published.models:
        _run(suite, model, published, cases, metric)
    standings.refresh_ranks(suite)
    return suite, True


def _cases(
    suite: Suite, published: PublishedTable, metric: MetricVersion
) -> dict[tuple[str, str], Case]:
    images: dict[str, SuiteImage] = {}
    cases: dict[tuple[str, str], Case] = {}
    for row in sorted(
        published.rows, key=lambda row: (row.image, CATEGORIES[row.edit_category], row.edit_pair)
    ):
        if row.image not in images:
            # There are no pixels to hash: the name is hashed instead.
            key = hashlib.sha256(f"{SLUG}/{row.image}".encode()).hexdigest()
            images[row.image] = SuiteImage.objects.create(
                suite=suite,
                slug=slugify(Path(row.image).stem.replace("_", "-")),
                pixels_sha256=key,
                title=Path(row.image).stem.replace("_", " ").capitalize(),
                kind=KINDS[row.image_type],
                licence="not published",
                attribution=SOURCE,
            )
            Calibration.objects.get_or_create(
                pixels_sha256=key, metric=metric, defaults={"blank": 1 - BLANK_SSIM, "ladder": {}}
            )
        if (row.image, row.edit_pair) not in cases:
            image, pair = images[row.image], slugify(row.edit_pair.replace("_", "-"))
            cases[row.image, row.edit_pair] = Case.objects.create(
                suite=suite,
                slug=f"{image.slug}--{pair}",
                image=image,
                pair_slug=pair,
                pair_title=row.edit_pair.replace("_", " ").capitalize(),
                category=CATEGORIES[row.edit_category],
                kind=image.kind,
                forward=NOT_GIVEN,
                backward=NOT_GIVEN,
                position=len(cases),
            )
    return cases


def _run(
    suite: Suite,
    name: str,
    published: PublishedTable,
    cases: dict[tuple[str, str], Case],
    metric: MetricVersion,
) -> None:
    """Store the published rows of a model as a run that was not played here."""
    played = {key: chains for key, chains in published.chains.items() if key[0] == name}
    run = Run.objects.create(
        editing_model=_model(name),
        suite=suite,
        state=RunState.FINISHED,
        source=Run.Source.PUBLISHED,
        published=True,
        metrics={"ssim": {"version": metric.version, "weights_sha256": ""}},
        provenance={"published": {"url": SOURCE, "date": f"{PUBLISHED_ON}"}},
        chains_total=len(cases),
        chains_done=len(played),
        finished_at=datetime.datetime.combine(PUBLISHED_ON, datetime.time(), datetime.UTC),
    )
    for (_, image, pair), chains in played.items():
        for repeat, rounds in enumerate(chains):
            _chain(run, cases[image, pair], repeat, rounds, metric)
    standings.rebuild(run)


def _model(name: str) -> EditingModel:
    label = metric_class("ssim").label
    return EditingModel.objects.get_or_create(
        slug=f"{SLUG}-{slugify(name.replace('_', '-'))}",
        defaults={
            "name": f"{name} (edit-converge-bench)",
            "editor": "",
            "homepage": SOURCE,
            "notes": f"As named in the published table of {SLUG}; {label} as published there.",
        },
    )[0]


def _chain(
    run: Run, case: Case, repeat: int, rounds: dict[int, float], metric: MetricVersion
) -> None:
    """Store a chain with its SSIM by round; after an early end, the further trips are unknown."""
    complete = len(rounds) == run.suite.trips
    chain = Chain.objects.create(
        run=run,
        case=case,
        repeat=repeat,
        state=ChainState.PLAYED,
        outcome=Outcome.COMPLETED if complete else Outcome.LOST,
        outcome_text="" if complete else "The published rows end here.",
        trips_played=len(rounds),
        trips_scored=len(rounds),
    )
    trips = Trip.objects.bulk_create(
        Trip(chain=chain, number=number, scored_at=run.finished_at) for number in sorted(rounds)
    )
    Score.objects.bulk_create(
        Score(trip=trip, metric=metric, distance=1 - rounds[trip.number]) for trip in trips
    )
