"""Metrics compared with published numbers, second implementations and each other."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from evaluation import weights
from evaluation.metrics import (
    HEADLINE,
    METRICS,
    MetricError,
    headline_parts,
    in_order,
    load_metric,
    metric_class,
    scored_metrics,
    semantic_metrics,
)
from evaluation.metrics.base import DirectMetric, Loss, finite
from evaluation.metrics.psnr import mse
from evaluation.testing.reference_images import ASTRONAUT, CHANGED, as_image, small, worn

GOLDEN = {
    "psnr": {"noise": 22.7121, "flip": 7.2868, "card": 10.1924, "shift": 16.4900},
    "ssim": {"noise": 0.40107, "flip": 0.15950, "card": 0.34476, "shift": 0.51706},
    # pytorch-msssim 1.0.0 in float64, data_range=255
    "ms_ssim": {"noise": 0.8755228, "flip": 0.0919303, "card": 0.1907788, "shift": 0.7263257},
    "lpips": {"noise": 0.39477, "flip": 0.72573, "card": 0.93864, "shift": 0.08789},
    "imagenet": {"noise": 0.844, "flip": 0.947, "card": 0.107},
}
TOLERANCE = {"psnr": 1e-4, "ssim": 1e-4, "ms_ssim": 1e-4, "lpips": 1e-3, "imagenet": 1e-3}


@cache
def ready(name):
    """Return the metric with its weights; skip the test if they cannot be fetched."""
    metric = load_metric(name)
    if name == "lpips":
        try:
            weights.fetch("lpips-alex")
        except weights.WeightsError as error:
            pytest.skip(str(error))
    if missing := metric.missing():
        pytest.skip("; ".join(missing))
    return metric


# Metrics that measure any two images themselves, without CLIP, whose weights are not available.
RUNNING = [
    name
    for name in METRICS
    if issubclass(metric_class(name), DirectMetric)
    and not metric_class(name).selective
    and name != "clip"
]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_table_is_reproduced(name):
    metric = ready(name)
    source = metric.prepare(as_image(ASTRONAUT))
    for change, expected in GOLDEN[name].items():
        (distance,) = metric.distances(source, [as_image(CHANGED[change])])
        assert metric.shown(distance) == pytest.approx(expected, abs=TOLERANCE[name]), change


def test_imagenet_features_separate_a_coffee_and_a_cat_from_an_astronaut():
    metric = ready("imagenet")
    source = metric.prepare(as_image(ASTRONAUT))
    distances = metric.distances(source, [as_image(data.coffee()), as_image(data.chelsea())])
    assert [metric.shown(d) for d in distances] == pytest.approx([0.251, 0.170], abs=1e-3)


@pytest.mark.parametrize("name", RUNNING)
def test_an_image_has_distance_zero_to_itself(name):
    metric, image = ready(name), small()
    assert metric.distances(metric.prepare(image), [image, image]) == pytest.approx(
        [0, 0], abs=1e-9
    )


@pytest.mark.parametrize("name", RUNNING)
def test_a_batch_gives_the_distances_of_single_images(name):
    metric, image = ready(name), small()
    source = metric.prepare(image)
    others = [worn(image, strength) for strength in (1, 5, 20, 80)]
    together = metric.distances(source, others)
    alone = [metric.distances(source, [other])[0] for other in others]
    assert together == pytest.approx(alone, abs=1e-6)
    assert metric.distances(source, []) == []


@pytest.mark.parametrize("name", RUNNING)
def test_more_noise_is_farther(name):
    metric, image = ready(name), small()
    others = [worn(image, strength) for strength in (2, 8, 32, 100)]
    distances = metric.distances(metric.prepare(image), others)
    assert distances == sorted(distances)
    assert distances[0] > 0
    direction = 1 if metric.higher_is_better else -1
    shown = [direction * metric.shown(distance) for distance in distances]
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("kind", ["black", "white", "one pixel"])
def test_flat_images_give_numbers_too(name, kind):
    metric = ready(name)
    values = np.full((176, 176, 3), 255 if kind == "white" else 0, np.uint8)
    other = values.copy()
    other[0, 0] = 17
    distances = metric.distances(
        metric.prepare(as_image(values if kind != "one pixel" else other)),
        [as_image(values), as_image(other), as_image(255 - values)],
    )
    assert all(math.isfinite(distance) and distance >= 0 for distance in distances)


images = st.tuples(st.integers(11, 40), st.integers(11, 40)).flatmap(
    lambda size: st.tuples(
        *[arrays.arrays(np.uint8, (*size, 3), elements=st.integers(0, 255)) for _ in range(2)]
    )
)


@given(images)
@settings(max_examples=60, deadline=None)
def test_psnr_and_ssim_equal_those_of_scikit_image(pair):
    one, other = pair
    psnr, ssim = load_metric("psnr"), load_metric("ssim")
    (distance,) = ssim.distances(ssim.prepare(as_image(one)), [as_image(other)])
    expected = structural_similarity(
        one, other, channel_axis=2, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    # A distance is never below 0; scikit-image's SSIM of very unlike images is.
    assert distance == pytest.approx(1 - expected, abs=1e-4)
    (distance,) = psnr.distances(psnr.prepare(as_image(one)), [as_image(other)])
    if distance > 1e-6:
        assert psnr.shown(distance) == pytest.approx(peak_signal_noise_ratio(one, other), abs=1e-6)


def test_ssim_is_exact_if_strips_do_not_divide_the_rows():
    metric = load_metric("ssim")
    for height in (74, 75, 138, 139, 140):
        one = small(width=33, height=height)
        other = worn(one, 10)
        expected = structural_similarity(
            *map(np.asarray, (one, other)),
            channel_axis=2,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        assert 1 - metric.distances(metric.prepare(one), [other])[0] == pytest.approx(
            expected, abs=1e-6
        )


@given(images)
@settings(max_examples=50, deadline=None)
def test_the_mean_squared_error_is_exact(pair):
    one, other = (array.astype(int) for array in pair)
    assert mse(*pair) == pytest.approx(np.square(one - other).mean() / 255**2, rel=1e-12)


def test_psnr_is_shown_in_decibels_up_to_60_or_as_identical():
    psnr = metric_class("psnr")()
    assert psnr.shown(0.0) == 60
    assert psnr.shown(1e-9) == 60
    assert psnr.shown(0.01) == pytest.approx(20)
    assert psnr.shown(1.0) == 0
    assert [psnr.text(d) for d in (None, 0.0, 1e-9, 0.01)] == [
        "not run",
        "identical",
        "60.00 dB",
        "20.00 dB",
    ]


def test_a_metric_names_the_sizes_it_cannot_measure():
    assert metric_class("ms_ssim")().size_problem((176, 900)) is None
    assert "at least 176 px" in metric_class("ms_ssim")().size_problem((900, 175))
    assert metric_class("ssim")().size_problem((11, 11)) is None
    assert metric_class("ssim")().size_problem((10, 11))
    assert metric_class("psnr")().size_problem((1, 1)) is None


@pytest.mark.parametrize("name", RUNNING)
def test_the_smallest_image_a_metric_takes_is_measured(name):
    metric = ready(name)
    side = metric.smallest
    image = small(side, side)
    assert metric.size_problem((side, side)) is None
    distances = metric.distances(metric.prepare(image), [worn(image, 20), image])
    assert distances[1] == pytest.approx(0, abs=1e-9)


def test_nan_is_an_error_and_a_distance_rounded_below_zero_is_zero():
    metric = load_metric("psnr")
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(MetricError, match="not a finite number"):
            finite(metric, [0.1, value])
    assert finite(metric, [-1e-9, np.float32(0.5)]) == [Loss(0.0), Loss(0.5)]


def test_an_unknown_metric_names_the_known_ones():
    with pytest.raises(MetricError, match="known are overall, object, shape"):
        load_metric("vmaf")


def test_every_metric_has_its_own_description():
    descriptions = [metric_class(name).looks_at for name in METRICS]
    assert all(descriptions)
    assert len(set(descriptions)) == len(descriptions)


def test_the_headline_is_first_then_its_parts_then_semantic_metrics():
    first = [HEADLINE, *headline_parts(), "lpips", *semantic_metrics()]
    assert [*METRICS][: len(first)] == first
    assert semantic_metrics() == ("clip", "imagenet")


def test_metrics_have_one_order_and_unregistered_ones_are_last():
    assert in_order(["psnr", "zebra", "lpips", "aardvark", "psnr"]) == [
        "lpips",
        "psnr",
        "aardvark",
        "zebra",
    ]


def test_a_metric_that_was_pinned_as_missing_was_not_run():
    pinned = {
        "ssim": {"version": "1"},
        "clip": {"missing": "no weights"},
        "lpips": {"version": "1"},
    }
    assert scored_metrics(pinned) == ["lpips", "ssim"]
    assert scored_metrics({}) == []
