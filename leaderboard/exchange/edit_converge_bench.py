"""The published rows of edit-converge-bench as a suite of its own: shown, sourced, never ranked.

github.com/Qianli-ion/edit-converge-bench published a table of scores without the
pictures. What is wrong with such a table is noticed, counted and said: in the output
and in the suite's description.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from evaluation.metrics import metric_class
from leaderboard import standings
from leaderboard.models import (
    Calibration,
    Case,
    Chain,
    EditingModel,
    MetricVersion,
    Run,
    Score,
    Suite,
    SuitePicture,
    Trip,
)
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.models.suites import Category, Kind

SLUG = "edit-converge-bench"
SOURCE = "https://github.com/Qianli-ion/edit-converge-bench"
PUBLISHED_ON = datetime.date(2026, 2, 1)
#: Method §3: what a card of the mean colour scores on average. The pictures are not
#: published, so there is no blank card of each.
BLANK_SSIM = 0.59
NOT_GIVEN = "The published rows do not give the wording."
COLUMNS = (
    *("model", "image", "edit_pair", "image_type", "edit_category", "round"),
    *("psnr", "ssim", "lpips", "clip_similarity"),
)
SCORES = COLUMNS[6:]
#: Their names of what we call otherwise.
CATEGORIES: dict[str, str] = {
    **{name: name for name in Category.values},
    "scene_objects": Category.OBJECTS,
    "geometric": Category.GEOMETRY,
}
KINDS = {"portrait": Kind.FACE, "scene": Kind.SCENE, "object": Kind.OBJECT}
MOST_ROWS = 200_000
Place = tuple[str, str, str]


class TableError(ValueError):
    """A table that is not imported; the message is written for people."""


@dataclass(frozen=True)
class Row:
    model: str
    image: str
    pair: str
    kind: str
    category: str
    round: int
    scores: dict[str, float]


@dataclass
class Published:
    """The table without what should not count, and what was noticed on the way."""

    rows: list[Row]
    #: SSIM by round of each (model, image, pair), a list for every time it was played.
    chains: dict[Place, list[dict[int, float]]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def trips(self) -> int:
        return max(row.round for row in self.rows)

    @property
    def models(self) -> list[str]:
        return sorted({model for model, _, _ in self.chains})

    @property
    def content_hash(self) -> str:
        """Of the rows that count, in order."""
        return hashlib.sha256("\n".join(map(repr, self.rows)).encode()).hexdigest()


def read(path: Path) -> Published:
    """The published table; TableError names the line and the field that do not fit."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            lacking = [name for name in COLUMNS if name not in (table.fieldnames or ())]
            if lacking:
                raise TableError(f"{path.name} lacks the columns {', '.join(lacking)}")
            rows = [_row(line, table.line_num) for line in table]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path.name} is not a CSV table: {error}") from None
    if not rows:
        raise TableError(f"{path.name} has no rows")
    if len(rows) > MOST_ROWS:
        raise TableError(f"{path.name} has more than {MOST_ROWS:,} rows")
    once = list({repr(row): row for row in rows}.values())
    published = Published(once)
    _note_duplicates(published, len(rows) - len(once), len(rows))
    _note_unrun(published)
    _gather(published)
    _note_cases(published)
    return published


def _row(line: dict[str, str], number: int) -> Row:
    def wrong(name: str, why: str) -> TableError:
        return TableError(f"line {number}, {name}: {str(line.get(name))[:60]!r} {why}")

    scores = {}
    for name in SCORES:
        try:
            scores[name] = float(line[name] or "")
        except (TypeError, ValueError):
            raise wrong(name, "is not a number") from None
        if not math.isfinite(scores[name]):
            raise wrong(name, "is not a number")
    if not scores["ssim"] <= 1:
        raise wrong("ssim", "is more than 1")
    for name in COLUMNS[:6]:
        if not re.fullmatch(r"[\w.-]{1,60}", line[name] or ""):
            raise wrong(name, "is not a name")
    if line["image_type"] not in KINDS:
        raise wrong("image_type", f"is none of {', '.join(KINDS)}")
    category = CATEGORIES.get(line["edit_category"])
    if category is None:
        raise wrong("edit_category", f"is none of {', '.join(CATEGORIES)}")
    if not line["round"].isdecimal() or not 1 <= int(line["round"]) <= 100:
        raise wrong("round", "is not a round from 1 to 100")
    return Row(
        model=line["model"],
        image=line["image"],
        pair=line["edit_pair"],
        kind=KINDS[line["image_type"]],
        category=category,
        round=int(line["round"]),
        scores=scores,
    )


def _note_duplicates(published: Published, count: int, total: int) -> None:
    if count:
        published.remarks.append(
            f"{count:,} of {total:,} rows are verbatim duplicates and count once."
        )


def _note_unrun(published: Published) -> None:
    """A score that is the same number in every row was never computed."""
    for name in SCORES:
        values = {row.scores[name] for row in published.rows}
        if len(values) == 1 and len(published.rows) > 1:
            value = values.pop()
            published.remarks.append(
                f"{name} is {value:g} in every row: it was never run, and is left out."
            )
            if name == "ssim":
                raise TableError("ssim was never run, and nothing else can be calibrated")


def _gather(published: Published) -> None:
    """Chains from rows: what comes a second time with other numbers is a repeat."""
    chains: dict[Place, list[dict[int, float]]] = defaultdict(list)
    for row in published.rows:
        played = chains[row.model, row.image, row.pair]
        again = next((chain for chain in played if row.round not in chain), None)
        if again is None:
            again = {}
            played.append(again)
        again[row.round] = row.scores["ssim"]
    # A chain is as long as it goes without a gap.
    gaps = 0
    for place, played in chains.items():
        whole = []
        for chain in played:
            length = next(n for n in range(1, len(chain) + 2) if n not in chain) - 1
            gaps += length < len(chain)
            whole.append({n: chain[n] for n in range(1, length + 1)})
        published.chains[place] = [chain for chain in whole if chain]
    if gaps:
        published.remarks.append(f"{gaps} chains have gaps; they count up to the first.")


def _note_cases(published: Published) -> None:
    """Repeats counted as cases, models with unequal cases, chains that stop early."""
    repeats = sum(len(played) - 1 for played in published.chains.values() if played)
    if repeats:
        published.remarks.append(
            f"{repeats} chains play a case again: they count as repeats of it, not as cases."
        )
    cases: Counter[str] = Counter(model for model, _, _ in published.chains)
    total = len({(image, pair) for _, image, pair in published.chains})
    if set(cases.values()) != {total}:
        each = ", ".join(f"{model} {count}" for model, count in sorted(cases.items()))
        published.remarks.append(
            f"The models did not play the same cases. Of {total}: {each}. "
            "Their numbers stand beside each other and are not compared."
        )
    short = sum(len(c) < published.trips for played in published.chains.values() for c in played)
    if short:
        published.remarks.append(
            f"{short} chains end before round {published.trips} without a word of why; "
            "they are censored where they end."
        )


def described(published: Published) -> str:
    """The suite's description: whose numbers these are, and what is wrong with them."""
    return "\n\n".join(
        [
            "Scores that the authors of edit-converge-bench published, ranked nowhere and not "
            "mixed with ours: other pictures, other prompts, and no pictures to look at.",
            "What was noticed on import: " + " ".join(published.remarks),
            f"Retention is of SSIM against {BLANK_SSIM}, what a card of the mean colour scores on "
            "average: the blank card of each picture is not known. Whether the edits were made "
            "is not known either.",
        ]
    )


@transaction.atomic
def store(
    published: Published, url: str = SOURCE, date: datetime.date = PUBLISHED_ON
) -> tuple[Suite, bool]:
    """The suite of these rows with its runs, and whether it is new."""
    versions = Suite.objects.filter(slug=SLUG).order_by("-version")
    same = versions.filter(content_hash=published.content_hash).first()
    if same:
        return same, False
    newest = versions.first()
    suite = Suite.objects.create(
        slug=SLUG,
        version=newest.version + 1 if newest else 1,
        title="edit-converge-bench (published elsewhere)",
        description=described(published),
        trips=published.trips,
        published_elsewhere=True,
        source_url=url,
        source_date=date,
        importance=-10,
        status=Suite.Status.FROZEN,
        content_hash=published.content_hash,
        frozen_at=timezone.now(),
    )
    metric = MetricVersion.objects.get_or_create(
        name="ssim", version=f"published {date:%Y-%m}", weights_sha256=""
    )[0]
    cases = _cases(suite, published, metric)
    for model in published.models:
        _run(suite, model, published, cases, metric)
    standings.refresh_ranks(suite)
    return suite, True


def _cases(
    suite: Suite, published: Published, metric: MetricVersion
) -> dict[tuple[str, str], Case]:
    pictures: dict[str, SuitePicture] = {}
    cases: dict[tuple[str, str], Case] = {}
    for row in sorted(published.rows, key=lambda row: (row.image, row.category, row.pair)):
        if row.image not in pictures:
            # There are no pixels to hash: the name stands for them.
            key = hashlib.sha256(f"{SLUG}/{row.image}".encode()).hexdigest()
            pictures[row.image] = SuitePicture.objects.create(
                suite=suite,
                slug=slugify(Path(row.image).stem.replace("_", "-")),
                pixels_sha256=key,
                title=Path(row.image).stem.replace("_", " ").capitalize(),
                kind=row.kind,
                licence="not published",
                attribution=SOURCE,
            )
            Calibration.objects.get_or_create(
                pixels_sha256=key, metric=metric, defaults={"blank": 1 - BLANK_SSIM, "ladder": {}}
            )
        if (row.image, row.pair) not in cases:
            picture, pair = pictures[row.image], slugify(row.pair.replace("_", "-"))
            cases[row.image, row.pair] = Case.objects.create(
                suite=suite,
                slug=f"{picture.slug}--{pair}",
                picture=picture,
                pair_slug=pair,
                pair_title=row.pair.replace("_", " ").capitalize(),
                category=row.category,
                kind=picture.kind,
                forward=NOT_GIVEN,
                backward=NOT_GIVEN,
                position=len(cases),
            )
    return cases


def _run(
    suite: Suite,
    name: str,
    published: Published,
    cases: dict[tuple[str, str], Case],
    metric: MetricVersion,
) -> None:
    """One model's published rows as a run that nobody here played."""
    played = {place: chains for place, chains in published.chains.items() if place[0] == name}
    day = datetime.datetime.combine(
        suite.source_date or PUBLISHED_ON, datetime.time(), datetime.UTC
    )
    run = Run.objects.create(
        editing_model=_model(name, suite.source_url),
        suite=suite,
        state=RunState.FINISHED,
        source=Run.Source.PUBLISHED,
        published=True,
        metrics={"ssim": {"version": metric.version, "weights_sha256": ""}},
        provenance={"published": {"url": suite.source_url, "date": f"{suite.source_date}"}},
        chains_total=len(cases),
        chains_done=len(played),
        finished_at=day,
    )
    for (_, image, pair), chains in played.items():
        for repeat, rounds in enumerate(chains):
            _chain(run, cases[image, pair], repeat, rounds, metric)
    standings.rebuild(run)


def _model(name: str, url: str) -> EditingModel:
    label = metric_class("ssim").label
    return EditingModel.objects.get_or_create(
        slug=f"{SLUG}-{slugify(name.replace('_', '-'))}",
        defaults={
            "name": f"{name} (edit-converge-bench)",
            "editor": "",
            "homepage": url,
            "notes": f"As named in the published table of {SLUG}; {label} as published there.",
        },
    )[0]


def _chain(
    run: Run, case: Case, repeat: int, rounds: dict[int, float], metric: MetricVersion
) -> None:
    """One chain with its SSIM by round; one that ends early is censored there."""
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
