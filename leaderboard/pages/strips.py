"""Strips: the images of a chain trip by trip, with their scores.

A chain is all round trips of one case. Its strip shows the source X0, then the edited image Yn and
the restored image Xn of each trip n, with the scores below each image. The scores are read from
`Chain.results`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from django.utils.text import Truncator

from evaluation.analysis.events import CAUSES, CROSSINGS
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.content.suites import ticks
from evaluation.measuring.calibration import LOSSLESS, jpeg_equivalent
from evaluation.metrics import metric_class
from evaluation.metrics.parts import PARTS
from evaluation.witnesses import witness_label
from leaderboard import formatting
from leaderboard.models import Case, Chain, StoredImage, Trip, TripStep
from leaderboard.models.runs import ChainState, Outcome
from leaderboard.text import plain_text

#: Longer side of a thumbnail in strips, in CSS pixels; the image files have twice as many pixels.
SHOWN_SIDE = 128
#: The maximum number of restored images in a short strip.
SHORT = 5
#: The maximum number of characters shown of a model's reasoning on an edit.
MAX_REASONING = 1200
#: The qualities at which the site serves a source as JPEG.
JPEG_QUALITIES = range(1, 96)


@dataclass(frozen=True)
class Jpeg:
    """The JPEG save that loses as much as an image; `equivalent` is 0 if every JPEG loses less."""

    equivalent: float

    @property
    def quality(self) -> int:
        """The nearest quality that the site serves."""
        return min(max(round(self.equivalent), JPEG_QUALITIES[0]), JPEG_QUALITIES[-1])

    @property
    def short(self) -> str:
        """Short text for a table: "quality 18"."""
        if self.equivalent < JPEG_QUALITIES[0]:
            return "below quality 1"
        if self.equivalent > JPEG_QUALITIES[-1]:
            return "above quality 95"
        return f"quality {self.equivalent:.0f}"

    @property
    def caption(self) -> str:
        """The caption below the JPEG."""
        saved = f"The source saved once as JPEG, quality {self.quality}"
        if self.equivalent < JPEG_QUALITIES[0]:
            return f"{saved}, the lowest: this JPEG still keeps more"
        if self.equivalent > JPEG_QUALITIES[-1]:
            return f"{saved}: this JPEG loses more"
        return f"{saved}: the same loss"


#: Words of a witness on whether an edit was made.
MADE = ("edit made", "edit not made")
#: A statement of a witness (an automatic check, such as a detector) on an image, and whether the
#: statement is good news.
Statement: TypeAlias = tuple[str, bool]


@dataclass(frozen=True)
class Frame:
    """A trip with its images, scores and witness statements."""

    trip: Trip
    #: Retention by the chosen metric; None if not scored yet.
    kept: float | None
    #: The metric's own value, such as "0.214".
    own: str
    jpeg: Jpeg | None
    #: All steps as (name, letter, prompt); empty for a plain round trip.
    prompts: Sequence[tuple[str, str, str]] = ()
    #: The steps between the first and the last, with the model's images.
    between: Sequence[TripStep] = ()

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Every step except the last, in order; empty for a plain round trip."""
        answers = {step.place: step.image for step in self.between} | {1: self.trip.edited}
        rows = self.trip.steps or [{}] * len(self.prompts)
        return [
            {
                "label": letter,
                "words": f"Trip {self.number}, step {place} ({letter}): {prompt}",
                "image": answers.get(place),
                "seen": rows[place - 1].get("seen"),
                "counted": _counted(rows[place - 1]),
                "made": self._statements("made", MADE, place),
            }
            for place, (_, letter, prompt) in enumerate(self.prompts[:-1], start=1)
        ]

    @property
    def counted(self) -> str:
        """The detector's count after the last step, in words."""
        return _counted(self.trip.steps[-1]) if self.trip.steps else ""

    @property
    def number(self) -> int:
        return self.trip.number

    @property
    def words(self) -> str:
        """Retention of the restored image, for screen readers and the viewer."""
        if self.kept is None:
            return "not scored yet"
        return formatting.kept(self.kept)

    @property
    def edited_words(self) -> str:
        return f"Y{self.number}: after the forward edit of trip {self.number}"

    @property
    def restored_words(self) -> str:
        return f"X{self.number}: {formatting.after_round_trips(self.number)}, {self.words}"

    @property
    def window(self) -> str:
        """The window that lost most as "left top right bottom", for the viewer."""
        return " ".join(f"{share:g}" for share in self.trip.window or ())

    @property
    def because_words(self) -> str:
        """The part of the headline that lost most: "most lost: shapes"."""
        return MAX_TOUCH_LOSS.get(self.trip.because, "")

    @property
    def change(self) -> str:
        """Text "change seen" or "no change seen"; empty if not judged."""
        if self.trip.change_seen is None:
            return ""
        return "change seen" if self.trip.change_seen else "no change seen"

    @property
    def made(self) -> list[Statement]:
        """Statements on the edit: "glasses: edit made, by face parsing"."""
        return self._statements("made", MADE)

    @property
    def undone(self) -> list[Statement]:
        """Statements on the restored image: "glasses: undone, by face parsing"."""
        return self._statements("undone", ("undone", "not undone"))

    @property
    def unasked_changes(self) -> list[Statement]:
        """Statements on content that the edit should not have changed."""
        statements = []
        for evidence in self.trip.evidence:
            kept, words = evidence.get("kept"), evidence.get("said")
            by = witness_label(evidence["witness"])
            if words == "no face":
                words = "no face is left"
            elif evidence["thing"] == "the same person" and kept is not None:
                words = f"{'the same' if kept else 'another'} person ({words})"
            elif not words:
                continue
            statements.append((f"{words}, by {by}", kept is not False))
        return statements

    def _statements(
        self, question: str, answers: tuple[str, str], step: int | None = None
    ) -> list[Statement]:
        return [
            (
                f"{evidence['thing']}: {answers[not evidence[question]]}, by "
                f"{witness_label(evidence['witness'])}",
                evidence[question],
            )
            for evidence in self.trip.evidence
            if evidence[question] is not None and (step is None or evidence.get("step") == step)
        ]

    @property
    def reasoning(self) -> list[tuple[str, str]]:
        """The model's reasoning as (label of the image, text); the text is truncated."""
        named = [
            (f"Y{self.number}", self.trip.edited_notes),
            *((f"Trip {self.number}, step {step.place}", step.notes) for step in self.between),
            (f"X{self.number}", self.trip.restored_notes),
        ]
        reasons = ((name, notes.get("reasoning")) for name, notes in named)
        return [
            (name, Truncator(plain_text(" ".join(text.split()))).chars(MAX_REASONING))
            for name, text in reasons
            if isinstance(text, str) and text.strip()
        ]

    @property
    def notes(self) -> list[str]:
        """Notes on how the model's answers were converted, without duplicates."""
        both = (self.trip.edited_notes, self.trip.restored_notes)
        converted = [str(note) for notes in both for note in notes.get("converted", ())]
        return list(dict.fromkeys(converted))


def _counted(row: Mapping[str, Any]) -> str:
    """Return the detector's count after a step, in words."""
    if "wanted" not in row:
        return ""
    return f"{row['counted']} of {formatting.count(row['wanted'], 'thing')} found"


def frames(
    chain: Chain,
    trips: Iterable[Trip],
    metric: str,
    distances: Mapping[int, float],
    ladder: Mapping[str, float] | None = None,
    case: Case | None = None,
) -> list[Frame]:
    """Return a frame for each trip of a chain, with its retention by `metric`.

    `distances` maps trip numbers to distances by `metric`. If `case` is given, frames of trips
    with more than two steps include every step.
    """
    between: dict[int, list[TripStep]] = defaultdict(list)
    has_steps = case is not None and bool(case.steps)
    for step in chain.steps.select_related("image") if has_steps else ():
        between[step.number].append(step)
    steps = {int(quality): loss for quality, loss in (ladder or {}).items()}
    scale = metric_class(metric)()
    rows = []
    for trip in trips:
        distance = distances.get(trip.number)
        retention = chain.retention_after(metric, trip.number)
        value = scale.text(distance) if distance is not None else ""
        prompts = case.steps_of_trip(trip.number) if case and has_steps else ()
        saved = jpeg(distance, steps)
        rows.append(Frame(trip, retention, value, saved, prompts, between[trip.number]))
    return rows


def jpeg(distance: float | None, ladder: Mapping[int, float]) -> Jpeg | None:
    """Return the JPEG that loses as much; None if nothing was lost or measured."""
    quality = jpeg_equivalent(distance, ladder)
    if quality is None or distance == 0:
        return None
    return Jpeg(quality)


def like_jpeg(quality: float | None) -> str:
    """Return a comparison such as "like one JPEG save at quality 8".

    None and 0 mean that every JPEG loses less.
    """
    if quality is None or quality < 1:
        return "worse than one JPEG save at the lowest quality"
    if quality >= LOSSLESS:
        return "nothing: no loss"
    if quality > JPEG_QUALITIES[-1]:
        return "less than one JPEG save at quality 95"
    return f"like one JPEG save at quality {quality:.0f}"


def table(
    chain: Chain,
    frames: Sequence[Frame],
    names: Sequence[str],
    distances: Mapping[str, Mapping[int, float]],
) -> list[tuple[int, list[tuple[str, str]], Frame]]:
    """Return a row for each trip: its number, a cell for each metric, and its frame.

    A cell consists of the metric's own value and the retention, as texts.
    """
    scales = {name: metric_class(name)() for name in names}

    def cell(name: str, trip: int) -> tuple[str, str]:
        retention = chain.retention_after(name, trip)
        if retention is None:
            return formatting.NOT_RUN, ""
        distance = distances.get(name, {}).get(trip)
        value = "" if distance is None else scales[name].text(distance)
        return value, formatting.percent(retention)

    return [
        (frame.number, [cell(name, frame.number) for name in names], frame)
        for frame in frames
        if frame.trip.restored
    ]


def end_event(chain: Chain, metric: str) -> dict[str, Any] | None:
    """Return when and why the chain stopped being usable; None if not scored."""
    event: dict[str, Any] | None = (
        chain.numbers(metric).get("events", {}).get(f"{DEFAULT_THRESHOLD:g}")
    )
    return event


def goodness(chain: Chain, metric: str) -> tuple[Any, ...]:
    """Return a sort key: unscored chains first, then by lifetime and by retention, best last."""
    event = end_event(chain, metric)
    if event is None:
        return False, False, 0.0, 0.0
    # A chain that never ended lasts longest.
    auc = chain.numbers(metric).get("auc") or 0.0
    return True, event["cause"] == "censored", event["time"], auc


def verdict(chain: Chain, metric: str, trips: int) -> str:
    """Describe the chain in one sentence."""
    if chain.state == ChainState.WAITING and not chain.trips_played:
        return "Not played yet."
    if chain.state != ChainState.PLAYED:
        return f"{formatting.count(chain.trips_played, 'round trip')} of {trips} played so far."
    event = end_event(chain, metric)
    if event is None:
        return ENDED.get(chain.outcome, "Not scored yet.")
    time, cause = event["time"], event["cause"]
    lasted, last = formatting.in_trips(time, trips), chain.retention(metric)[-1:]
    if cause == "censored":
        kept = formatting.percent(last[0]) if last else "all"
        return f"{kept} of the image is kept {formatting.after_round_trips(trips)}."
    if cause == "stopped":
        return (
            "The chain was stopped while more than half of the image was kept by this metric, so "
            "its end by this metric is unknown."
        )
    if cause in CROSSED:
        return f"{CROSSED[cause]} after {lasted}."
    over = f"after {lasted}" if time else "at once"
    return f"{EVENTS[cause]} on trip {int(time) + 1}: the chain ends {over}."


#: Caption of a restored image by the part of the headline that lost most.
MAX_TOUCH_LOSS = {part.name: f"most lost: {part.label.lower()}" for part in PARTS}
#: Causes of falling below the threshold, as the start of a sentence.
CROSSED = {name: f"{CAUSES[name][0].upper()}{CAUSES[name][1:]}" for name in CROSSINGS}
#: Other causes of an end, as the start of a sentence.
EVENTS = {
    "not_made": "The edit was not made",
    "not_the_edit": "It was not the edit asked for",
    "not_undone": "The edit was not undone",
    "refused": "The model refused",
    "blank": "The model answered with a blank image",
    "failed": "No usable answer came",
    "lost": "A fault on our side ended the chain",
}
#: Sentences on chains that ended before they could be scored.
ENDED: dict[str, str] = {
    Outcome.REFUSED: "The model refused before the first restored image.",
    Outcome.BLANK: "The model answered with a blank image before the first restored image.",
    Outcome.FAILED: "No usable answer came before the first restored image.",
    Outcome.LOST: "A fault on our side ended this chain before the first restored image. The chain "
    "does not count.",
}


@dataclass(frozen=True)
class ShortStrip:
    """A chain in a few images: its source, first edit and some restored images."""

    chain: Chain
    edited: StoredImage | None
    #: The number of each shown trip, the restored image and its retention.
    cells: Sequence[tuple[int, StoredImage | None, float | None]]
    verdict: str

    @property
    def source(self) -> StoredImage | None:
        return self.chain.case.image.stored


#: Large fields of `Trip` that short strips do not need.
HEAVY = ("evidence", "change_measure")


def played_trips(chains: Iterable[Chain], numbers: Iterable[int]) -> dict[int, dict[int, Trip]]:
    """Return the trips with these numbers, by chain and number, in one query."""
    by_chain: dict[int, dict[int, Trip]] = {chain.pk: {} for chain in chains}
    trips = Trip.objects.filter(chain__in=by_chain, number__in=set(numbers))
    for trip in trips.select_related("edited", "restored").defer(*HEAVY):
        by_chain[trip.chain_id][trip.number] = trip
    return by_chain


def short_strips(
    chains: Sequence[Chain],
    trips: int,
    metric: str = "",
    *,
    numbers: Sequence[int] = (),
    every: bool = False,
    played: Mapping[int, Mapping[int, Trip]] | None = None,
) -> list[ShortStrip]:
    """Return these chains as short strips.

    `metric` defaults to each chain's headline metric, and `numbers` to `short_numbers`. With
    `every`, trips that were not played are included, so that strips line up. A given `played`, the
    result of `played_trips`, saves a query.
    """
    numbers = numbers or short_numbers(trips)
    if played is None:
        played = played_trips(chains, {1, *numbers})
    return [
        _short_strip(chain, played[chain.pk], numbers, metric or chain.headline, trips, every)
        for chain in chains
    ]


def _short_strip(
    chain: Chain,
    played: Mapping[int, Trip],
    numbers: Sequence[int],
    metric: str,
    trips: int,
    every: bool,
) -> ShortStrip:
    cells = [
        (
            number,
            played[number].restored if number in played else None,
            chain.retention_after(metric, number),
        )
        for number in numbers
        if every or number in played
    ]
    edited = played[1].edited if 1 in played else None
    return ShortStrip(chain, edited, cells, verdict(chain, metric, trips))


def short_numbers(trips: int) -> list[int]:
    """Return the trips of a short strip: the first, the last, some between."""
    numbers = ticks(trips)
    if len(numbers) <= SHORT:
        return numbers
    step = (len(numbers) - 1) / (SHORT - 1)
    return [numbers[round(index * step)] for index in range(SHORT)]


def shown_size(stored: StoredImage | None, side: int = SHOWN_SIDE) -> tuple[int, int]:
    """Return width and height of a thumbnail; square if there is no image."""
    if stored is None:
        return side, side
    scale = side / max(stored.width, stored.height)
    return max(1, round(stored.width * scale)), max(1, round(stored.height * scale))
