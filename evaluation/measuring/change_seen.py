"""Detect from pixels whether an edit was made (docs/method.md).

Without this test, a model that returns its input would win. A change that is "seen" proves that
something changed in the right way or region, but not that, for example, glasses appeared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from evaluation.alignment import (
    Aligned,
    Floats,
    Values,
    equally_sharp,
    explained_by_motion,
    likely_warps,
    moved,
    registered,
    unaligned,
    unwarped,
    without_grain,
)
from evaluation.content import operators
from evaluation.content.suites import EditPair
from evaluation.images import fit
from evaluation.metrics.base import is_large
from evaluation.metrics.psnr import mse

# Exact pairs (such as flips, of which we can compute the result): the lowest accepted correlation
# with the exact result (the truth).
MATCH = 0.5
# Exact pairs: the highest accepted weight of the untouched image, relative to that of the truth.
# One limit holds for the whole image, the other for each half.
UNTOUCHED = 0.5
UNTOUCHED_HALF = 1.0
FIT_SIDE = 256
HIGH_PASS = 1 / 8  # of the side
MAX_WEIGHT = 100.0  # finite, so that JSON can carry it
# Local pairs: of all blocks, the share TOP_SHARE that changed most must on average change by at
# least TOP, and by at least TOP_TO_MEDIAN times the change of the median block.
TOP_SHARE = 0.03
TOP = 0.10
TOP_TO_MEDIAN = 5.0
# A difference is grain if a slight blur removes more than half of it in the median block.
GRAIN = 0.5
# Global pairs: the smallest change that counts as an edit, as a multiple of the model's drift (its
# change of an image when asked for none) and as an absolute value.
DRIFTS = 3.0
MIN_MOVE = 0.02
BAND = 256  # rows


@dataclass(frozen=True)
class ChangeSeen:
    """The verdict on one forward edit (None: not judged) with its measures."""

    seen: bool | None
    measure: dict[str, float] = field(default_factory=dict)


def change_seen(before: Image.Image, after: Image.Image, pair: EditPair) -> ChangeSeen:
    """Judge whether `after` shows the forward edit of `pair` made on `before`.

    A global edit is only measured here; `changed_enough` judges it later, when the model's drift on
    identity pairs (which ask for no change) is known.
    """
    if pair.change == "exact":
        return _exact(before, after, pair.operator)
    if pair.change == "local":
        return _local(before, after)
    return ChangeSeen(None, {"moved": drift(before, after)})


def drift(before: Image.Image, after: Image.Image) -> float:
    """Return the mean absolute difference of two images, as a share of the full range."""
    after = fit(after, before.size)
    if not is_large(before.size):
        return float(np.abs(_values(after) - _values(before)).mean())
    x, y = np.asarray(before), np.asarray(after)
    # Integers, in bands of rows: a large image as floats takes too much memory.
    sums = (
        int(np.abs(np.subtract(y[top : top + BAND], x[top : top + BAND], dtype=np.int16)).sum())
        for top in range(0, before.height, BAND)
    )
    return sum(sums) / (255 * x.size)


def changed_enough(distance: float, identity_drift: float) -> bool:
    """Return True if a global edit changed the image much more than the model's drift does."""
    return distance > DRIFTS * identity_drift and distance >= MIN_MOVE


def _exact(before: Image.Image, after: Image.Image, operator: str) -> ChangeSeen:
    """Judge whether the answer is the exact edit, not a blend with the untouched image."""
    truth = operators.apply(operator, before)
    before, after = (fit(image, truth.size) for image in (before, after))
    truth_mse = mse(np.asarray(after), np.asarray(truth))
    # Large images are reduced, because fine detail does not matter for the comparison.
    factor = next(n for n in (1, 2, 4, 8) if not is_large((truth.width // n, truth.height // n)))
    x, y, t = (_values(image.reduce(factor)) for image in (before, after, truth))
    plain = Aligned(t, y, np.ones(t.shape[:2], np.float32), block=1)
    candidates = (plain, *(moved(plain, warp) for warp in likely_warps(t, y)))
    best = max(candidates, key=_correlation_inside)
    to_truth = _correlation_inside(best)
    whole, half = _untouched(best, x)
    measure = {
        "to_truth": to_truth,
        "to_input": correlation(y, x),
        "untouched": whole,
        "untouched_half": half,
        "truth_mse": truth_mse,
    }
    seen = to_truth >= MATCH and whole <= UNTOUCHED and half <= UNTOUCHED_HALF
    return ChangeSeen(seen, measure)


def correlation(a: Values, b: Values) -> float:
    """Return the normalised cross-correlation of two images; 0 if one is flat."""
    a, b = a - a.mean(axis=(0, 1)), b - b.mean(axis=(0, 1))
    norm = math.sqrt(float(np.square(a).sum()) * float(np.square(b).sum()))
    return float((a * b).sum()) / norm if norm > 1e-9 * a.size else 0.0


def _correlation_inside(images: Aligned) -> float:
    inside = images.inside[..., None]
    return correlation(images.after * inside, images.before * inside)


def _untouched(images: Aligned, untouched: Values) -> tuple[float, float]:
    """Return the weight of the untouched image in the answer, relative to the weight of the truth.

    Returns the value for the whole image and the largest value of its halves. The answer is fitted
    as a mix of the truth and the untouched image. Low frequencies are removed first, because they
    are similar in any two images of one scene.
    """
    import cv2

    height, width = images.inside.shape
    scale = min(1.0, FIT_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    inside = cv2.resize(images.inside, size, interpolation=cv2.INTER_AREA)[..., None] > 0.99
    detail = []
    for values in (images.after, images.before, untouched):
        small = cv2.resize(values, size, interpolation=cv2.INTER_AREA)
        detail.append((small - cv2.GaussianBlur(small, (0, 0), HIGH_PASS * max(size))) * inside)
    wide, high = size[0] // 2, size[1] // 2
    halves = (np.s_[:, :wide], np.s_[:, wide:], np.s_[:high], np.s_[high:])
    shares = [_share(*(part[half] for part in detail)) for half in (np.s_[:], *halves)]
    return shares[0], max(shares[1:])


def _share(answer: Values, truth: Values, untouched: Values) -> float:
    """Return the untouched image's weight divided by the truth's, at most MAX_WEIGHT."""
    y, t, x = (part.astype(np.float64).ravel() for part in (answer, truth, untouched))
    products = np.array([[t @ t, t @ x], [t @ x, x @ x]])
    products += np.eye(2) * (1e-9 * np.trace(products) + 1e-12)
    of_truth, of_untouched = np.linalg.solve(products, [t @ y, x @ y])
    return (
        float(np.clip(of_untouched / of_truth, -MAX_WEIGHT, MAX_WEIGHT))
        if of_truth > 0
        else MAX_WEIGHT
    )


def _local(before: Image.Image, after: Image.Image) -> ChangeSeen:
    images = unaligned(before, after)
    # Correcting global changes only reduces differences, so small ones need no correction.
    if _top(images.blocks) < TOP:
        return _judge_blocks(images)
    images = equally_sharp(registered(images))
    straight = unwarped(images)
    if straight is None:
        verdict, smooth = _judge_blocks(images), _judge_blocks(without_grain(images))
        # Grain over the whole image raises the median, which hides an edit that people see.
        grainy = smooth.measure["median"] < GRAIN * verdict.measure["median"]
        return smooth if grainy and not verdict.seen else verdict
    # In a warped image, the edit is a difference that remains after undoing the warp, or colours
    # that no motion of pixels can explain.
    verdict = _judge_blocks(straight)
    return verdict if verdict.seen else _judge_blocks(explained_by_motion(images))


def _judge_blocks(images: Aligned) -> ChangeSeen:
    """Judge whether some blocks changed much, and much more than the other blocks."""
    top, median = _top(images.blocks), float(np.median(images.blocks))
    seen = top >= TOP and top >= TOP_TO_MEDIAN * median
    return ChangeSeen(seen, {"top": top, "median": median, "registered": float(images.was_moved)})


def _top(blocks: Floats) -> float:
    return float(np.sort(blocks)[-max(1, math.ceil(TOP_SHARE * len(blocks))) :].mean())


def _values(image: Image.Image) -> Values:
    return np.asarray(image, dtype=np.float32) / np.float32(255)
