"""Measures of one trip (an edit and its inverse) in addition to the metrics.

The shell, the site and the verification of bundles all use this module, so that they agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.caches import LruCache
from evaluation.content.suites import Case, EditPair, Suite
from evaluation.images import EncodedImage, fit, is_reframed, without_low_bits
from evaluation.measuring.change_seen import ChangeSeen, change_seen, changed_enough
from evaluation.measuring.cheating import EditErrors, mean_square
from evaluation.measuring.scoring import Scores
from evaluation.metrics.base import Subject
from evaluation.metrics.psnr import mse
from evaluation.records import TripMeasures
from evaluation.witnesses import Panel, TripToJudge
from evaluation.witnesses.base import requested_thing
from evaluation.witnesses.detector import detector

#: Recent verdicts are cached, because a deterministic editor may repeat a trip exactly.
_SEEN = LruCache[ChangeSeen](8)


def measure_trip(
    source: EncodedImage,
    before: EncodedImage,
    edited: EncodedImage | None,
    restored: EncodedImage,
    pair: EditPair,
    panel: Panel | None = None,
    subject: Subject | None = None,
    *,
    number: int = 1,
    between: Sequence[EncodedImage] = (),
) -> TripMeasures:
    """Measure trip `number`, which began with `before`.

    `edited` is the answer to the trip's first step, `restored` the answer to its last step, and
    `between` has the answers to the steps between these two. Without `edited`, the edit is not
    judged. Without a panel (of witnesses, the automatic checks of edits), there is no evidence.
    """
    size = source.size
    original, last, final = (np.asarray(fit(p.decoded, size)) for p in (source, before, restored))
    verdict = ChangeSeen(None)
    evidence: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    if edited is not None and pair.shape:
        images = (before, edited, *between, restored)
        verdict, evidence, steps = measure_steps(source, images, pair, number, panel, subject)
    elif edited is not None:
        if panel is not None:
            trip = TripToJudge(source, before, edited, restored, pair, subject or Subject())
            evidence = panel.evidence(trip)
        verdict = _SEEN.get(
            (before.sha256, edited.sha256, pair.change, pair.operator),
            lambda: change_seen(before.decoded, edited.decoded, pair),
        )
    if edited is not None:
        sent = (edited, *between)[-1]
        answers = {
            "to_input": _from_input(before, edited),
            "back_to_input": _from_input(sent, restored),
        }
        verdict = ChangeSeen(verdict.seen, verdict.measure | answers)
    return TripMeasures(
        reframed=is_reframed(restored.size, size),
        step=rmse(last, final),
        from_source=rmse(original, final),
        change_seen=verdict.seen,
        change_measure=dict(verdict.measure),
        evidence=evidence,
        steps=steps,
    )


def scoring_findings(scores: Scores, index: int) -> dict[str, Any]:
    """Return the fields of `TripMeasures` that come from scoring, for one trip.

    The result is empty if the headline metric was not run.
    """
    findings: dict[str, Any] = {}
    if scores.because is not None and scores.windows is not None:
        findings["because"] = scores.because[index]
        window = scores.windows[index]
        findings["window"] = None if window is None else [round(side, 5) for side in window]
        undo = scores.undo[index] if scores.undo else None
        findings["undo"] = None if undo is None else round(undo, 5)
    return findings


def _from_input(before: EncodedImage, answer: EncodedImage) -> float:
    """Return the error of an answer against its input.

    This is the smaller of two errors: against the input without its low bits, as we send it, and
    against the input with all bits, as another harness may send it.
    """
    error = mean_square(before, answer)
    if error == 0:
        return 0.0
    sent = np.asarray(without_low_bits(before.decoded))
    return min(error, mse(sent, np.asarray(fit(answer.decoded, before.size))))


def edit_errors(number: int, trip: TripMeasures) -> list[EditErrors]:
    """Return the errors of a trip's answers, in which we look for signs of cheating."""
    if trip.step is None or trip.from_source is None:
        return []
    measure, to_source = trip.change_measure, trip.from_source**2
    if "to_input" not in measure:  # the edited image is not stored
        return [EditErrors(number, "backward", trip.step**2, to_source)]
    return [
        EditErrors(number, "forward", measure["to_input"]),
        EditErrors(number, "backward", measure["back_to_input"], to_source),
    ]


# Global edits, judged after all trips of a run are measured.


def identity_drift(measures: Iterable[Mapping[str, float]]) -> float | None:
    """Return the model's mean drift on identity pairs; None without such pairs.

    Identity pairs ask for no change: drift is how much the model changes the image nevertheless.
    `measures` are the `change_measure` of the pairs' trips.
    """
    moved = [measure["moved"] for measure in measures if "moved" in measure]
    return math.fsum(moved) / len(moved) if moved else None


def judge_global(measure: Mapping[str, float], drift: float | None) -> ChangeSeen:
    """Judge whether a global edit changed the image by more than the model's drift.

    If the suite has no identity pair, `drift` is None and a fixed limit alone decides.
    """
    if "moved" not in measure:
        return ChangeSeen(None, dict(measure))
    drifts = {} if drift is None else {"identity_drift": drift}
    return ChangeSeen(changed_enough(measure["moved"], drift or 0.0), {**measure, **drifts})


#: Detections of lower confidence are not counted.
MIN_CONFIDENCE = 0.2
#: Reads an image of a chain by case, repeat, trip and step. Step 0 is the starting image of the
#: trip, step k the answer to its k-th step. Returns None if the chain ended before that step.
ReadStep = Callable[[Case, int, int, int], EncodedImage | None]


def measure_steps(
    source: EncodedImage,
    images: Sequence[EncodedImage],
    pair: EditPair,
    number: int,
    panel: Panel | None,
    subject: Subject | None,
) -> tuple[ChangeSeen, list[dict[str, Any]], list[dict[str, Any]]]:
    """Measure the steps of trip `number`: verdict, evidence, and a row per step.

    `images` are the trip's starting image and the answers to its steps. The verdict is "seen" if
    the change of every judged edit is seen. The row of a step has these fields:

    - `seen`: the verdict on the step's own edit (None: not judged).
    - `back`: the distance (RMSE) to the image that the step should restore.
    - `wanted`: the number of requested things that should be visible after the step.
    - `counted`: the number of such things that were detected, beyond those in the source.
    """
    shape = pair.trip(number)
    rows: list[dict[str, Any]] = [
        {"name": step.name, "letter": step.letter, "seen": None} for step in shape.steps
    ]
    evidence: list[dict[str, Any]] = []
    measure: dict[str, float] = {}
    for move in shape.moves:
        edit_pair = pair.move_as_pair(number, move)
        before, edited = images[move.before], images[move.edited]
        verdict = change_seen(before.decoded, edited.decoded, edit_pair)
        rows[move.edited - 1]["seen"] = verdict.seen
        measure |= {f"{move.edited}-{name}": value for name, value in verdict.measure.items()}
        if panel is not None:
            restored = None if move.restored is None else images[move.restored]
            trip = TripToJudge(source, before, edited, restored, edit_pair, subject or Subject())
            evidence += [{**item, "step": move.edited} for item in panel.evidence(trip)]
    for position, step in enumerate(shape.steps, start=1):
        if step.back_to is not None:
            error = distance(images[step.back_to], images[position])
            rows[position - 1]["back"] = round(error, 6)
    if panel is not None and "detector" in panel.witnesses:
        _count(rows, source, images, pair, number)
    seen = [row["seen"] for row in rows if row["seen"] is not None]
    return ChangeSeen(all(seen) if seen else None, measure), evidence, rows


def _count(
    rows: list[dict[str, Any]],
    source: EncodedImage,
    images: Sequence[EncodedImage],
    pair: EditPair,
    number: int,
) -> None:
    """Add `wanted` and `counted`, described at `measure_steps`, to the row of each step."""
    shape = pair.trip(number)
    things = {
        move.edited: (thing, move.restored)
        for move in shape.moves
        if (thing := requested_thing(pair.move_as_pair(number, move), "detector"))
    }
    if len(things) < len(shape.moves) or not things:
        return  # a count is meaningless if the detector knows only some requested things

    def detected(image: EncodedImage) -> Counter[str]:
        detections = detector().things(image.decoded)
        return Counter(
            detection.name for detection in detections if detection.confidence >= MIN_CONFIDENCE
        )

    kinds, in_source = {thing for thing, _ in things.values()}, detected(source)
    for position, row in enumerate(rows, start=1):
        row["wanted"] = sum(
            made <= position and (undone is None or undone > position)
            for made, (_, undone) in things.items()
        )
        in_step = detected(images[position])
        row["counted"] = sum(max(0, in_step[kind] - in_source[kind]) for kind in kinds)


def compare_orders(suite: Suite, read: ReadStep) -> list[dict[str, Any]]:
    """Compare the images of two edit pairs at points where their chains should have equal images.

    An edit pair is compared with the pair named in its `against`, on every source image of both. At
    such a point, both chains have made equally many edits and the same edits are in effect.
    Examples are A then B against B then A (the commutator distance), or all edits undone.
    `distance` is the RMSE of the two images, `standing` the number of edits in effect.
    """
    rows = []
    cases = {(case.image, case.pair): case for case in suite.cases}
    for case in suite.cases:
        pair = suite.pair_by_slug[case.pair]
        other = cases.get((case.image, pair.against))
        if other is None:
            continue
        comparable = list(_comparable(pair, suite.pair_by_slug[other.pair], suite.trips))
        for repeat in range(min(suite.repeats_of(case), suite.repeats_of(other))):
            for edits, standing, mine, theirs in comparable:
                image, other_image = read(case, repeat, *mine), read(other, repeat, *theirs)
                if image is None or other_image is None:
                    continue
                rows.append(
                    {
                        "image": case.image,
                        "pair": case.pair,
                        "against": other.pair,
                        "repeat": repeat,
                        "edits": edits,
                        "standing": standing,
                        "distance": round(distance(image, other_image), 6),
                    }
                )
    return rows


#: The numbers of a trip and of a step in it.
Position = tuple[int, int]


def _comparable(
    pair: EditPair, against: EditPair, trips: int
) -> Iterator[tuple[int, int, Position, Position]]:
    """Yield the number of edits made, the number in effect, and the position in each chain."""
    # Not strict, because the comparison ends with the shorter chain.
    states = zip(_states(pair, trips), _states(against, trips), strict=False)
    for edits, (mine, theirs) in enumerate(states, start=1):
        if mine[0] == theirs[0]:
            yield edits, mine[0].total(), mine[1], theirs[1]


def _states(pair: EditPair, trips: int) -> Iterator[tuple[Counter[str], Position]]:
    """Yield the prompts in effect after each edit of a chain, and the position of that edit."""
    prompts = {step.name: step.prompt for step in pair.steps}
    for number in range(1, trips + 1):
        in_effect: Counter[str] = Counter()
        for position, step in enumerate(pair.trip(number).steps, start=1):
            in_effect[prompts.get(step.letter.upper(), step.prompt)] += (
                1 if step.letter.isupper() else -1
            )
            if step.back_to == 0:
                in_effect.clear()
            yield +in_effect, (number, position)


def distance(first: EncodedImage, second: EncodedImage) -> float:
    """Return the RMSE of two images, after fitting the second to the size of the first."""
    return rmse(np.asarray(first.decoded), np.asarray(fit(second.decoded, first.size)))


def rmse(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    """Return the root mean square difference of two images, with sRGB values in [0, 1]."""
    return math.sqrt(mse(a, b))
