"""The headline: golden values of its reference implementation, and its parts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from skimage import data

from evaluation.content import catalog
from evaluation.measuring.scoring import RestoredImages, Scorer
from evaluation.metrics import HEADLINE, headline_parts, metric_class
from evaluation.metrics.base import CELLS, Subject
from evaluation.metrics.overall import Overall
from evaluation.metrics.parts import PARTS, Face, Object, from_json, to_json
from evaluation.metrics.views import (
    dissimilarity,
    harmless_copies,
    register,
    window_means,
    window_means_inside,
)
from evaluation.testing.reference_images import ASTRONAUT, as_image
from evaluation.testing.twin import DAMAGES, another_hue, erased, noise, scene, zoom

#: Values of the reference implementation with the stand-in network.
TWIN = {
    "jpeg75": (0.90978, "sharpness", 0.00644, 0.00773, 3.12483, 0.97865, 0.12032, 0.0, 0.0),
    "jpeg10": (0.61745, "colour", 0.06103, 0.05958, 7.19204, 3.24376, 0.15723, 0.0, 0.0),
    "noise4": (0.82767, "sharpness", 0.00033, 0.00031, 1.42243, 1.14259, 0.18762, 0.97519, 0.0),
    "noise16": (0.18816, "sharpness", 0.03816, 0.02196, 5.55773, 4.47086, 0.80519, 5.47955, 0.0),
    "blur1": (0.72319, "sharpness", 0.01188, 0.00566, 1.97393, 0.50419, 0.3013, 0.0, 0.0),
    "blur3": (0.24655, "sharpness", 0.10626, 0.06137, 5.6231, 1.39744, 0.7751, 0.0, 0.0),
    "zoom4": (0.923, "framing", 0.00369, 0.00115, 0.73286, 0.30252, 0.03883, 0.0, 0.08155),
    "centre erased": (0.09472, "object", 0.34514, 0.53077, 17.9263, 0.29755, 0.0323, 0.0, 0.0),
    "centre hue": (0.01828, "object", 0.87363, 1.07082, 48.87255, 3.38718, 0.0386, 0.01251, 0.0),
}
NAMES = ("object", "shape", "local_colour", "colour", "sharpness", "grain", "framing")


@pytest.fixture(scope="module")
def overall() -> Overall:
    return Overall()


@pytest.fixture(scope="module")
def drawn(overall):
    return overall.prepare(scene())


@pytest.mark.parametrize("damage", TWIN)
def test_a_drawn_scene_has_the_numbers_of_the_reference_implementation(overall, drawn, damage):
    (loss,) = overall.losses([drawn], [DAMAGES[damage](scene())])
    kept, because, *distances = TWIN[damage]
    assert 1 - loss.distance == pytest.approx(kept, abs=1e-3)
    assert loss.because == because
    for name, distance in zip(NAMES, distances, strict=True):
        assert loss.parts[name].distance == pytest.approx(distance, abs=1e-3, rel=1e-3), name


@pytest.mark.slow
@pytest.mark.parametrize("image", ["teapot", "street-corner", "succulents", "chalkboard"])
def test_the_golden_values_hold(image, real_network, shared):
    golden = json.loads((shared / "method3/golden.json").read_text())[image]
    source = Image.open(catalog.folder() / f"pictures/{image}.webp").convert("RGB")
    metric = Overall()
    prepared = metric.prepare(source)
    for damage, wanted in golden.items():
        (loss,) = metric.losses([prepared], [DAMAGES[damage](source)])
        assert 1 - loss.distance == pytest.approx(wanted["kept"], abs=1e-3), damage
        assert loss.because == wanted["because"], damage
        assert set(loss.parts) == set(wanted["parts"])
        for name, distance in wanted["parts"].items():
            result = loss.parts[name].distance
            assert result == pytest.approx(distance, abs=1e-3), (damage, name)


def test_nothing_lost_is_exactly_nothing(overall, drawn):
    (loss,) = overall.losses([drawn], [scene()])
    assert loss.distance == 0
    assert all(part.distance == 0 for part in loss.parts.values())


def test_a_source_is_restored_from_its_stored_features(overall, drawn):
    stored = json.loads(json.dumps(overall.to_store(drawn)))
    again = overall.prepare_subject(scene(), Subject(), stored)
    worn = noise(8)(scene())
    one, other = overall.losses([drawn, again], [worn, worn])
    assert one.distance == other.distance
    table = np.random.default_rng(0).uniform(0, 1.9, (5, 7))
    assert from_json(to_json(table)) == pytest.approx(table, abs=2e-5)


def test_each_part_has_retention_one_half_at_its_half_point():
    assert headline_parts() == tuple(part.name for part in PARTS)
    for part in PARTS:
        assert metric_class(part.name) is part
        assert part().loss(part.half) == pytest.approx(0.5)
        assert part().loss(0.0) == 0
    assert Object().shown(Object().loss(0.15)) == pytest.approx(0.5)


def test_the_parts_add_up_to_the_headline():
    scorer = Scorer([HEADLINE, *headline_parts()], witnesses=())
    if scorer.not_run:
        pytest.skip(str(scorer.not_run))
    scores = scorer.score(scene(), [noise(6)(scene()), erased(scene())])
    assert set(scores.not_applicable) == {"face", "text"}
    for index, because in enumerate(scores.because):
        lost = {n: d[index] for n, d in scores.distances.items() if d and n != HEADLINE}
        terms = [value / (1 - value) for value in lost.values()]
        assert scores.distances[HEADLINE][index] == pytest.approx(sum(terms) / (1 + sum(terms)))
        assert lost[because] == max(lost.values())


def test_a_lost_object_has_a_window_and_colours_of_the_whole_have_none(overall, drawn):
    (loss,) = overall.losses([drawn], [erased(scene())])
    left, top, right, bottom = loss.window
    assert left < 0.6
    assert right > 0.4
    assert top < 0.6
    assert bottom > 0.4
    assert loss.parts["colour"].window is loss.parts["grain"].window is None


def test_undo_measures_only_where_the_edit_was_made(overall, drawn):
    (loss,) = overall.losses([drawn], [another_hue(scene())])
    middle = np.zeros((CELLS, CELLS), dtype=bool)
    middle[20:28, 20:28] = True
    corner = np.roll(middle, (-20, -20), (0, 1))
    assert loss.retention_within(middle) < 0.2
    assert loss.retention_within(corner) > 0.9
    assert loss.retention_within(np.zeros_like(middle)) is None


def test_a_shift_is_registered_and_counts_as_framing(overall, drawn):
    moved = Image.fromarray(np.roll(np.asarray(scene()), 6, axis=1))
    image, inside, reframed = register(scene(), moved)
    assert 0 < reframed < 0.05
    assert inside.shape == (CELLS, CELLS)
    assert image.size == scene().size
    (loss,) = overall.losses([drawn], [zoom(0.06)(scene())])
    assert loss.because == "framing"


def test_a_face_is_compared_by_its_annotation():
    if reasons := Face().missing():
        pytest.skip("; ".join(reasons))
    metric, source = Overall(), as_image(ASTRONAUT)
    prepared = metric.prepare_subject(source, Subject(face=(0.36, 0.1, 0.53, 0.36)))
    noisy, gone = metric.losses(
        [prepared] * 2, [noise(4)(source), Image.new("RGB", source.size, (90, 90, 90))]
    )
    assert noisy.parts["face"].distance < 0.1
    assert gone.parts["face"].distance > 0.6
    assert gone.parts["face"].window == (0.36, 0.1, 0.53, 0.36)


def test_lost_letters_count_as_lost_text():
    scorer = Scorer(["text"], witnesses=())
    if scorer.not_run:
        pytest.skip(str(scorer.not_run))
    page = as_image(np.stack([data.page()] * 3, axis=-1))
    page = page.resize((page.width * 2, page.height * 2))
    blank = Image.new("RGB", page.size, (200, 200, 200))
    scores = scorer.score(page, [page, blank])
    assert scores.distances["text"][0] == 0
    assert scores.distances["text"][1] > 0.8


def test_without_face_and_text_networks_the_other_parts_are_measured(monkeypatch):
    whole = Overall().running_version
    for name in ("face", "text"):
        monkeypatch.setattr(metric_class(name), "modules", {"no_such_module": "none"})
    without = Overall()
    assert without.running_version.endswith("-no-face-no-text") or whole.endswith(
        "-no-face-no-text"
    )
    assert len(without.running_version) <= 40  # the database's column
    (loss,) = without.losses([without.prepare(scene())], [scene()])
    assert set(loss.parts) == {*headline_parts()} - {"face", "text"}


def test_chains_of_one_source_share_its_features(monkeypatch):
    scorer, prepared = Scorer([HEADLINE], witnesses=()), []
    if scorer.not_run:
        pytest.skip(str(scorer.not_run))
    own = Overall._prepare_parts
    monkeypatch.setattr(
        Overall, "_prepare_parts", lambda self, s: prepared.append(1) or own(self, s)
    )
    source = scene()
    chains = [RestoredImages(source, [noise(n)(source)]) for n in (2, 4)]
    scorer.score_together(chains)
    scorer.score(source, [noise(9)(source)])
    assert len(prepared) == 1
    known = scorer.calibrate(source)[HEADLINE].stored
    fresh = Scorer([HEADLINE], witnesses=())
    fresh.score_together([RestoredImages(source, [source], stored={HEADLINE: known})])
    assert len(prepared) == 1


# The tools of the parts


def test_dissimilarity_finds_a_patch_within_one_step_and_counts_lost_and_invented():
    random = np.random.default_rng(0)
    patches = random.normal(size=(6, 8, 16)).astype(np.float32)
    patches /= np.linalg.norm(patches, axis=-1, keepdims=True)
    moved = np.roll(patches, 1, axis=1)
    inside = dissimilarity({8: patches}, {8: moved}, 8)[:, 1:-1]
    assert inside == pytest.approx(0, abs=1e-6)
    other = patches.copy()
    other[3, 3] = -patches[3, 3]
    change = dissimilarity({8: patches}, {8: other}, 8)
    assert change[3, 3] > 0.3
    assert change == pytest.approx(_slowly(patches, other), abs=1e-6)


def _slowly(one, other):
    """Compute the dissimilarity patch by patch."""
    rows, columns = one.shape[:2]

    def missing(a, b):
        lost = np.zeros((rows, columns))
        for y, x in np.ndindex(rows, columns):
            best = [
                float(a[y, x] @ b[v, u]) if 0 <= v < rows and 0 <= u < columns else 0.0
                for v in range(y - 1, y + 2)
                for u in range(x - 1, x + 2)
            ]
            lost[y, x] = 1 - max(best)
        return lost

    return np.maximum(missing(one, other), missing(other, one))


def test_window_means_leave_out_windows_mostly_outside():
    values = np.arange(20.0).reshape(4, 5)
    assert window_means(values, 2)[1, 2] == pytest.approx(values[1:3, 2:4].mean())
    inside = np.ones((4, 5), dtype=bool)
    inside[:, :2] = False
    result = window_means_inside(values, inside, 2)
    assert result[0, 0] == -np.inf
    assert result[0, 1] == -np.inf  # half of it
    assert result[2, 2] == pytest.approx(values[2:4, 2:4].mean())


def test_harmless_copies_are_reproducible():
    one, other = harmless_copies(scene()), harmless_copies(scene())
    assert [a.tobytes() for a in one] == [b.tobytes() for b in other]
    assert len(one) == 3
