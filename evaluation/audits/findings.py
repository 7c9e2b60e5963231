"""What an audit found: how much of a mark came back, and what a harmless touch cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.audits.plan import Kind
from evaluation.audits.touch import Touch
from evaluation.content.suites import EditPair
from evaluation.images import Picture, blank_card, fit
from evaluation.measuring.alignment import registered, unaligned
from evaluation.measuring.calibration import retention
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import footprint
from evaluation.metrics.base import Subject

Values = npt.NDArray[np.float32]

#: Marks are looked for on copies of this longer side; there detail no longer matters.
SIDE = 256
#: A mark may have moved by so much of it.
MOVED = 0.03
#: Of what is kept, by the first of these that runs here.
METRICS = ("lpips", "ssim")

#: Below this median share of marks that came back, a run leaves the ranks until a person looked.
LEAST_KEPT = 0.5
#: Above this median loss under a harmless touch, too.
MOST_LOST = 0.3
#: And where a touched answer loses more than this, and more than all trips before together. Who
#: looks its own answer up disguises one edit of a better editor than that: one whose edit adds
#: noise of 4 levels loses a tenth, and gains all trips (evaluation.testing.tricks, HashAndNoise).
#: No honest editor loses more by a touch than by several edits.
FALL = 0.02
#: With evidence in a smaller share of the cases that witnesses cover, too; of so many at least.
LEAST_EVIDENCE, LEAST_COVERED = 0.5, 4


@dataclass(frozen=True)
class Finding:
    """What one audit found. `kept` is None for a fragility audit.

    `loss` is how much less of the picture was kept than in the chain's own return of the
    same trip; `lost` is what that return had lost. `elsewhere` is what the forward edit of that
    trip changed outside its footprint, where data would hide; None where it has no footprint.
    """

    kind: Kind
    kept: float | None
    loss: float
    lost: float
    elsewhere: float | None = None


def find(
    kind: Kind, touch: Touch, source: Picture, own: Picture, answer: Picture, scorer: Scorer
) -> Finding:
    """Compare an audit's answer with the chain's own return of the same trip."""
    share, way = mark_found(touch, own.image, answer.image) if kind == "mark" else (None, "")
    original = touch.expected(source.image, way)
    chain = touch.expected(fit(own.image, source.size), way)
    ours, theirs = _kept(scorer, original, [chain, fit(answer.image, source.size)])
    return Finding(
        kind,
        None if share is None else round(share, 4),
        round(ours - theirs, 4),
        round(1 - ours, 4),
        changed_elsewhere(touch.before, touch.edited, touch.pair, scorer),
    )


def changed_elsewhere(
    before: Picture, edited: Picture, pair: EditPair, scorer: Scorer
) -> float | None:
    """The share of the picture that an edit lost outside its footprint, by LPIPS.

    None where the edit is of the whole picture, or was not made, or LPIPS does not run.
    """
    where = footprint(before.image, edited.image, pair)
    if where is None or "place" not in scorer.metrics:
        return None
    # What is kept inside a footprint is measured as `undo`; here the rest is asked for.
    kept = scorer.only(["place"]).score(before, [edited], Subject(footprint=~where)).undo
    return round(1 - kept[0], 4) if kept and kept[0] is not None else None


def _kept(scorer: Scorer, source: Image.Image, pictures: list[Image.Image]) -> list[float]:
    """How much of the source each picture keeps."""
    name = next((name for name in METRICS if name in scorer.metrics), None)
    if name is None:
        scorer, name = Scorer(["ssim"]), "ssim"
    found = scorer.only([name]).score(source, [blank_card(source), *pictures]).distances[name]
    if found is None:  # a picture too small for the network
        found = Scorer(["psnr"]).score(source, [blank_card(source), *pictures]).distances["psnr"]
    blank, *distances = found or [0.0, *(0.0 for _ in pictures)]
    return [kept if (kept := retention(d, blank)) is not None else 1.0 for d in distances]


def mark_kept(touch: Touch, own: Image.Image, answer: Image.Image) -> float:
    """The share of the mark in the answer: 1 = as it was painted, 0 = not there."""
    return mark_found(touch, own, answer)[0]


def mark_found(touch: Touch, own: Image.Image, answer: Image.Image) -> tuple[float, str]:
    """The share of the mark in the answer, and by which way it came there.

    The share is the projection of what the answer has more than the chain's own return on what was
    painted, at the place where it fits best. A shift, a zoom and another light of the whole
    picture are accounted for first.
    """
    import cv2

    scale = SIDE / max(own.size)
    size = (max(16, round(own.width * scale)), max(16, round(own.height * scale)))
    pair = registered(unaligned(own.resize(size, Image.Resampling.BOX), fit(answer, size)))
    sigma = 0.01 * SIDE
    more = cv2.GaussianBlur((pair.after - pair.before) * pair.inside[..., None], (0, 0), sigma)
    reach = range(-round(MOVED * SIDE), round(MOVED * SIDE) + 1, 2)
    found = []
    for way in touch.ways:
        mark = cv2.GaussianBlur(touch.painted(size, way), (0, 0), sigma)
        energy = float(np.square(mark).sum())
        shares = [
            float((np.roll(mark, (rows, columns), (0, 1)) * more).sum()) / energy
            for rows in reach
            for columns in reach
        ]
        found.append((max(shares), way))
    return max(found, key=lambda one: one[0])


@dataclass(frozen=True)
class Audited:
    """All audits of a run in one word, with the words for people."""

    verdict: Literal["clean", "review"]
    reasons: tuple[str, ...]
    hints: tuple[str, ...]
    marks_kept: float | None
    loss_under_audit: float | None
    changed_elsewhere: float | None


def judged(findings: Sequence[Finding], made: Sequence[bool] = ()) -> Audited:
    """What the audits of a run mean: clean, or a person must look, and why.

    `made` says of each case that a witness looked at whether the first edit was made.
    """
    shares = [found.kept for found in findings if found.kept is not None]
    losses = [found.loss for found in findings if found.kind == "fragility"]
    elsewhere = [found.elsewhere for found in findings if found.elsewhere is not None]
    kept, loss, changed = (
        median(values) if values else None for values in (shares, losses, elsewhere)
    )
    reasons, hints = [], []
    if kept is not None and kept < LEAST_KEPT:
        reasons.append(
            f"of marks that were painted on its own answers {kept:.0%} came back: "
            "it may return a picture that it kept"
        )
    elif kept is not None and kept < 0.8:
        hints.append(f"of marks that were painted on its own answers only {kept:.0%} came back")
    if loss is not None and loss > MOST_LOST:
        reasons.append(
            f"it loses {loss:.0%} of the picture when its own answer is touched harmlessly: "
            "it may read something that is hidden there"
        )
    if findings and not reasons:
        fall, lost = median(f.loss for f in findings), median(f.lost for f in findings)
        if fall > max(FALL, lost):
            reasons.append(
                f"it loses {fall:.0%} of the picture when its own answer is touched harmlessly, "
                f"and {max(lost, 0):.0%} in all trips together when it is not"
            )
    if len(made) >= LEAST_COVERED and sum(made) < LEAST_EVIDENCE * len(made):
        reasons.append(
            f"in {len(made) - sum(made)} of {len(made)} cases that a witness looked at, "
            "the edit does not show what was asked for"
        )
    verdict: Literal["clean", "review"] = "review" if reasons else "clean"
    return Audited(verdict, tuple(reasons), tuple(hints), kept, loss, changed)


def from_dicts(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Findings as they were kept."""
    return [Finding(**row) for row in rows]
