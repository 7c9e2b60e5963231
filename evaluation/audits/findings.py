"""Findings of audits: returned marks, loss caused by harmless touches, loss in cold audits.

Audits are extra requests that test for cheating. Their kinds are described in
`evaluation.audits.plan`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.alignment import registered, unaligned
from evaluation.audits.cold import Cold
from evaluation.audits.plan import KIND_NAMES, Kind
from evaluation.audits.touch import Touch
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage, blank_card, fit
from evaluation.measuring.calibration import retention
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import footprint
from evaluation.metrics import HEADLINE
from evaluation.metrics.overall import Overall

Values = npt.NDArray[np.float32]

#: We look for marks in copies of this size (longer side), because detail does not matter.
SIDE = 256
#: We look for a mark within this distance of where it was painted, as a share of SIDE.
MAX_SHIFT = 0.03
#: Retention is measured by the first of these metrics that runs here.
METRICS = ("lpips", "ssim")
#: The limit of cold audits was measured with this metric; without it, cold audits are not judged.
COLD_METRIC = "lpips"
#: A cold audit is compared with the loss of its chain after this trip, or its last trip if earlier.
COLD_TRIP = 3

# A run that violates one of these limits is not ranked until a person has reviewed it.

#: The lowest accepted median share of returned marks.
MIN_MARK_SHARE = 0.5
#: The largest accepted median loss caused by a harmless touch.
MAX_TOUCH_LOSS = 0.3
#: A median loss by a touch is also suspicious if it exceeds both this limit and the median loss of
#: the untouched trips. A cheating model may look up stored images by its own answers. After a touch
#: it must really edit and loses a little, for example a tenth by noise, while all its other trips
#: are perfect (evaluation.testing.tricks, HashAndNoise). No honest editor loses more by one touch
#: than by several edits.
MIN_SUSPICIOUS_LOSS = 0.02
#: In a cold audit, one edit of an unknown image may lose at most this much more than three trips of
#: its chain. No honest editor loses more by one edit than by the six edits of three
#: trips (docs/method.md).
MAX_COLD_GAP = 0.02
#: Cold audits are judged from this number on, in all cases or in one category.
MIN_COLD_AUDITS = 3
#: Unanswered audits of one kind are suspicious from this number on, if they are at least half of
#: that kind. Only audits of chains that went on afterwards count.
MIN_UNANSWERED = 2
#: The lowest accepted share of first edits that witnesses (automatic checks) saw, and the smallest
#: number of cases for which this share is judged.
MIN_EDITS_MADE, MIN_COVERED_CASES = 0.5, 4


@dataclass(frozen=True)
class Finding:
    """The result of one audit.

    `kept` is the share of the mark that the model returned; None without a mark. `lost` is the loss
    of the chain's own restored image of the audited trip (cold audits: of COLD_TRIP). `loss` is how
    much more the audit's answer lost. `category` is the category of the pair; cold audits only.
    `elsewhere` is the change that the trip's forward edit made outside its footprint, where data
    could be hidden; None without a footprint.
    """

    kind: Kind
    kept: float | None
    loss: float
    lost: float
    elsewhere: float | None = None
    category: str = ""


def find(
    kind: Kind,
    touch: Touch,
    source: EncodedImage,
    restored: EncodedImage,
    answer: EncodedImage,
    scorer: Scorer,
) -> Finding:
    """Compare an audit's answer with the chain's own restored image of the audited trip."""
    share, operator = None, ""
    if kind == "mark":
        share, operator = locate_mark(touch, restored.decoded, answer.decoded)
    original = touch.expected(source.decoded, operator)
    chain = touch.expected(fit(restored.decoded, source.size), operator)
    images = [blank_card(original), chain, fit(answer.decoded, source.size)]
    chain_retention, answer_retention = _retentions(scorer, original, images)
    return Finding(
        kind,
        None if share is None else round(share, 4),
        round(chain_retention - answer_retention, 4),
        round(1 - chain_retention, 4),
        changed_elsewhere(touch.before, touch.edited, touch.pair, scorer),
    )


def find_cold(
    cold: Cold, restored: EncodedImage, answer: EncodedImage, scorer: Scorer
) -> Finding | None:
    """Compare a cold audit's answer with the chain's restored image, outside the drawn object.

    Returns None if LPIPS does not run here or the image is too small for it.
    """
    source = cold.source
    images = [
        blank_card(source.decoded),
        *(fit(p.decoded, source.size) for p in (restored, answer)),
    ]
    if COLD_METRIC not in scorer.metrics or scorer.size_problems(source.size).get(COLD_METRIC):
        return None
    outside = [cold.outside(image) for image in images]
    chain_retention, answer_retention = _retentions(scorer, source.decoded, outside)
    gap, lost = round(chain_retention - answer_retention, 4), round(1 - chain_retention, 4)
    return Finding("cold", None, gap, lost, category=cold.category)


def changed_elsewhere(
    before: EncodedImage, edited: EncodedImage, pair: EditPair, scorer: Scorer
) -> float | None:
    """Return the headline metric's distance outside the edit's footprint.

    Returns None if the edit has no footprint (it changes the whole image or was not made), or if
    the headline does not run.
    """
    region = footprint(before.decoded, edited.decoded, pair)
    overall = scorer.metrics.get(HEADLINE)
    if region is None or not isinstance(overall, Overall) or overall.size_problem(before.size):
        return None
    answer = fit(edited.decoded, before.size)
    return round(overall.distance_within(before.decoded, answer, ~region), 4)


def _retentions(scorer: Scorer, source: Image.Image, images: list[Image.Image]) -> list[float]:
    """Return the retention of all images but the first, which is the blank card."""
    name = next((name for name in METRICS if name in scorer.metrics), None)
    if name is None:
        scorer, name = Scorer(["ssim"]), "ssim"
    scored = scorer.only([name]).score(source, images).distances[name]
    if scored is None:  # an image too small for the network
        scored = Scorer(["psnr"]).score(source, images).distances["psnr"]
    blank, *distances = scored or [0.0 for _ in images]
    return [q if (q := retention(d, blank)) is not None else 1.0 for d in distances]


def mark_share(touch: Touch, restored: Image.Image, answer: Image.Image) -> float:
    """Return the share of the mark in the answer: 1 = as painted, 0 = absent."""
    return locate_mark(touch, restored, answer)[0]


def locate_mark(touch: Touch, restored: Image.Image, answer: Image.Image) -> tuple[float, str]:
    """Return the share of the mark in the answer, and the operator that moved it.

    First, a shift, zoom or change of brightness of the whole image is corrected. Then the
    difference between the answer and the chain's own restored image is projected onto the painted
    mark, at the position that fits best.
    """
    import cv2

    scale = SIDE / max(restored.size)
    size = (max(16, round(restored.width * scale)), max(16, round(restored.height * scale)))
    pair = registered(unaligned(restored.resize(size, Image.Resampling.BOX), fit(answer, size)))
    sigma = 0.01 * SIDE
    excess = cv2.GaussianBlur((pair.after - pair.before) * pair.inside[..., None], (0, 0), sigma)
    shifts = range(-round(MAX_SHIFT * SIDE), round(MAX_SHIFT * SIDE) + 1, 2)
    candidates = []
    for operator in touch.operators_to_try:
        mark = cv2.GaussianBlur(touch.mark_difference(size, operator), (0, 0), sigma)
        energy = float(np.square(mark).sum())
        shares = [
            float((np.roll(mark, (rows, columns), (0, 1)) * excess).sum()) / energy
            for rows in shifts
            for columns in shifts
        ]
        candidates.append((max(shares), operator))
    return max(candidates, key=lambda candidate: candidate[0])


@dataclass(frozen=True)
class Audited:
    """The verdict on all audits of a run, with its reasons in words."""

    verdict: Literal["clean", "review"]
    reasons: tuple[str, ...]
    hints: tuple[str, ...]
    marks_kept: float | None
    loss_under_audit: float | None
    cold_gap: float | None
    changed_elsewhere: float | None


#: The fields of `Audited` that are medians. They have these names wherever they are stored.
MEDIANS = ("marks_kept", "loss_under_audit", "cold_gap", "changed_elsewhere")


def judge_audits(
    findings: Sequence[Finding], edits_made: Sequence[bool] = (), silent: Sequence[Kind] = ()
) -> Audited:
    """Judge the audits of a run: "clean", or "review" with reasons.

    `edits_made` has the witnesses' verdict on the first edit of each chain that they can judge.
    `silent` has the kind of each audit that got no image although its chain went on.
    """
    shares = [finding.kept for finding in findings if finding.kept is not None]
    losses = [finding.loss for finding in findings if finding.kind == "fragility"]
    gaps = [finding.loss for finding in findings if finding.kind == "cold"]
    elsewhere = [finding.elsewhere for finding in findings if finding.elsewhere is not None]
    share, loss, gap, changed = (
        median(values) if values else None for values in (shares, losses, gaps, elsewhere)
    )
    touched = [finding for finding in findings if finding.kind != "cold"]
    reasons, hints = [], []
    if share is not None and share < MIN_MARK_SHARE:
        reasons.append(
            f"{share:.0%} of the marks that we painted on its answers came back: the model may "
            "return stored images"
        )
    elif share is not None and share < 0.8:
        hints.append(f"only {share:.0%} of the marks that we painted on its answers came back")
    if loss is not None and loss > MAX_TOUCH_LOSS:
        reasons.append(
            f"a harmless alteration of its answer costs {loss:.0%} of the image: the model may "
            "read data that it hid in the answer"
        )
    if touched and not reasons:
        by_touch, lost = median(f.loss for f in touched), median(f.lost for f in touched)
        if by_touch > max(MIN_SUSPICIOUS_LOSS, lost):
            reasons.append(
                f"an alteration of its answer costs {by_touch:.0%} of the image, but all unaltered "
                f"trips together cost {max(lost, 0):.0%}"
            )
    if (large := _largest_gap(findings)) and large[0] > MAX_COLD_GAP:
        where = f" in the category {large[1]}" if large[1] else ""
        reasons.append(
            f"one edit of an image that is new to the model loses {large[0]:.0%} more than three "
            f"trips of a chain{where}: the model may return stored images"
        )
    for kind, kind_name in KIND_NAMES.items():
        count = silent.count(kind)
        if count >= max(MIN_UNANSWERED, sum(finding.kind == kind for finding in findings)):
            reasons.append(
                f"the model gave no image in {count} {kind_name} (extra requests), although it made "
                "the same edits in the chains"
            )
    if len(edits_made) >= MIN_COVERED_CASES and sum(edits_made) < MIN_EDITS_MADE * len(edits_made):
        reasons.append(
            f"in {len(edits_made) - sum(edits_made)} of {len(edits_made)} cases that a witness "
            "judged, the edit does not show the requested thing"
        )
    verdict: Literal["clean", "review"] = "review" if reasons else "clean"
    return Audited(verdict, tuple(reasons), tuple(hints), share, loss, gap, changed)


def _largest_gap(findings: Sequence[Finding]) -> tuple[float, str] | None:
    """Return the largest median gap of cold audits, and its category ("" for all cases).

    Categories are judged by themselves, because a model that stores the images of only one
    category hardly changes the median of all cases.
    """
    gaps: dict[str, list[float]] = defaultdict(list)
    for finding in findings:
        if finding.kind == "cold":
            for name in {"", finding.category}:
                gaps[name].append(finding.loss)
    medians = ((median(v), name) for name, v in gaps.items() if len(v) >= MIN_COLD_AUDITS)
    return max(medians, key=lambda gap: gap[0], default=None)


def findings_from_rows(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Return findings from stored rows."""
    return [Finding(**row) for row in rows]
