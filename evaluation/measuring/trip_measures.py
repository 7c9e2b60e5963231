"""What one trip did to the picture, beside the metrics.

The shell, the site and whoever verifies a bundle measure here, so that they agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.content.suites import EditPair
from evaluation.images import Picture, fit, is_reframed, without_low_bits
from evaluation.measuring.change_seen import ChangeSeen, change_seen, moved_enough
from evaluation.measuring.cheating import HalfErrors, mean_square
from evaluation.measuring.damage import damage
from evaluation.measuring.scoring import Scores
from evaluation.measuring.steps import measure_steps, rmse
from evaluation.metrics.base import Mask, Subject
from evaluation.metrics.psnr import mse
from evaluation.records import TripMeasures
from evaluation.remembered import Remembered
from evaluation.witnesses import TripToJudge
from evaluation.witnesses.panel import Panel

#: An editor that gives the same answer to the same picture makes the same trip again and again.
_SEEN = Remembered[ChangeSeen](8)
_DAMAGE = Remembered[Mapping[str, float]](8)


def measure_trip(
    source: Picture,
    before: Picture,
    edited: Picture | None,
    restored: Picture,
    pair: EditPair,
    panel: Panel | None = None,
    subject: Subject | None = None,
    *,
    number: int = 1,
    between: Sequence[Picture] = (),
) -> TripMeasures:
    """What trip `number`, from `before`, did; not judged where `edited` was not kept.

    `edited` is the answer to its first step, `restored` to its last, and `between` are those
    to the others. Without a panel no witness is heard.
    """
    size = source.size
    original, last, back = (np.asarray(fit(p.image, size)) for p in (source, before, restored))
    verdict = ChangeSeen(None)
    evidence: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    if edited is not None and pair.shape:
        pictures = (before, edited, *between, restored)
        verdict, evidence, steps = measure_steps(source, pictures, pair, number, panel, subject)
    elif edited is not None:
        if panel is not None:
            seen = TripToJudge(source, before, edited, restored, pair, subject or Subject())
            evidence = panel.hear(seen)
        verdict = _SEEN.of(
            (before.sha256, edited.sha256, pair.change, pair.operator),
            lambda: change_seen(before.image, edited.image, pair),
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
        step=rmse(last, back),
        from_source=rmse(original, back),
        change_seen=verdict.seen,
        change_measure=dict(verdict.measure),
        evidence=evidence,
        damage=dict(_damage(source, restored, subject.footprint if subject else None)),
        steps=steps,
    )


def _damage(source: Picture, restored: Picture, footprint: Mask | None) -> Mapping[str, float]:
    where = None if footprint is None else footprint.tobytes()
    return _DAMAGE.of(
        (source.sha256, restored.sha256, where),
        lambda: damage(source.image, restored.image, footprint),
    )


def found_by_scoring(scores: Scores, index: int) -> dict[str, Any]:
    """What scoring found beside distances, of one trip, by the names of `TripMeasures`.

    What was not asked for this time is left out.
    """
    found: dict[str, Any] = {}
    if scores.because is not None:
        found["because"] = scores.because[index]
    if scores.places is not None:
        place = scores.places[index]
        found["worst_place"] = [*place.box, round(place.kept, 5)]
        undo = scores.undo[index] if scores.undo else None
        found["undo"] = None if undo is None else round(undo, 5)
    return found


def _from_input(before: Picture, answer: Picture) -> float:
    """The error of an answer against its input: as we send it, or as another harness may have."""
    error = mean_square(before, answer)
    if error == 0:
        return 0.0
    sent = np.asarray(without_low_bits(before.image))
    return min(error, mse(sent, np.asarray(fit(answer.image, before.size))))


def half_errors(number: int, trip: TripMeasures) -> list[HalfErrors]:
    """The errors of a trip's answers, of which signs of cheating are read."""
    if trip.step is None or trip.from_source is None:
        return []
    measure, to_source = trip.change_measure, trip.from_source**2
    if "to_input" not in measure:  # the edited picture was not kept
        return [HalfErrors(number, "backward", trip.step**2, to_source)]
    return [
        HalfErrors(number, "forward", measure["to_input"]),
        HalfErrors(number, "backward", measure["back_to_input"], to_source),
    ]


# Global edits are judged when the whole run is measured.


def identity_drift(measures: Iterable[Mapping[str, float]]) -> float | None:
    """How far the model moves a picture that it was asked to leave alone.

    The mean over its trips on identity pairs, given their `change_measure`; None without any.
    """
    moved = [measure["moved"] for measure in measures if "moved" in measure]
    return math.fsum(moved) / len(moved) if moved else None


def judge_global(measure: Mapping[str, float], drift: float | None) -> ChangeSeen:
    """Whether a global edit moved the picture, and more than no edit at all would have.

    Where the suite asks for no replica (`drift` is None) the first must do.
    """
    if "moved" not in measure:
        return ChangeSeen(None, dict(measure))
    known = {} if drift is None else {"identity_drift": drift}
    return ChangeSeen(moved_enough(measure["moved"], drift or 0.0), {**measure, **known})
