import json
import re
import subprocess
import sys
from collections import Counter

import pytest

from evaluation.content import catalog
from evaluation.content.catalog import CatalogError
from evaluation.content.datasheet import is_portrait
from evaluation.content.operators import INVERSES, OPERATORS, apply
from evaluation.content.suites import SuiteError
from evaluation.testing.images import gradient

REPLICA = "Produce an exact replica of the provided image, with no alterations."


@pytest.fixture
def content(tmp_path, monkeypatch):
    """A copy of the content folder that a test may break."""
    for name in ("edit_pairs.json", "source_images.json"):
        (tmp_path / name).write_text((catalog.folder() / name).read_text())
    monkeypatch.setattr(catalog, "folder", lambda: tmp_path)
    return tmp_path


def change_row(path, number, **fields):
    rows = json.loads(path.read_text())
    rows[number]["fields"].update(fields)
    path.write_text(json.dumps(rows))


STUDIED = [f"{group}{number}" for group in ("s", "sf", "l", "lf") for number in (1, 2, 3)]


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def test_at_least_seventy_active_pairs_ship_in_every_category():
    active = Counter(pair.category for pair in catalog.edit_pairs() if pair.status == "active")
    assert sum(active.values()) >= 70
    assert set(active) == set(catalog.CATEGORIES)


def test_every_pair_has_three_more_wordings_each_with_and_without_asking_to_keep_the_rest():
    for pair in (pair for pair in catalog.edit_pairs() if not pair.shape):
        names = [variant.name for variant in pair.variants]
        # Restoration pairs also have the twelve prompts of a study.
        more = STUDIED if pair.category == "restoration" else []
        assert names == ["short", "long", "colloquial", *more], pair.slug
        assert len(pair.wordings) == 8 + 2 * len(more)
        kept = [catalog.FIDELITY in wording.forward for wording in pair.wordings]
        assert sum(kept) == len(kept) // 2
        for wording in pair.wordings:
            assert wording.forward.strip(), pair.slug
            assert wording.backward.strip(), pair.slug


def test_no_image_may_already_contain_the_thing_that_a_backward_prompt_removes():
    for pair in catalog.edit_pairs():
        if pair.rule and pair.rule.do == "draw":
            name = pair.object.replace("-", " ")
            assert any(name in label or label in name for label in pair.absent), pair.slug


def test_no_wording_asks_for_two_different_things():
    asked = {}
    for pair in catalog.edit_pairs():
        if pair.rule is None:
            continue
        for wording in pair.wordings:
            for text, way in ((wording.forward, "there"), (wording.backward, "back")):
                if pair.change == "exact" or pair.rule.undoes_itself or pair.rule.do == "keep":
                    continue
                assert asked.setdefault(text.casefold(), (pair.slug, way)) == (pair.slug, way)


def test_at_least_thirty_portraits_and_a_hundred_and_fifty_images_ship():
    images = [image for image in catalog.source_images() if image.status == "active"]
    assert len(images) >= 150
    assert sum(is_portrait(image) for image in images) >= 30
    for portrait in filter(is_portrait, images):
        assert portrait.annotations.face, portrait.slug


def test_exact_pairs_undo_themselves_and_their_prompts_agree_with_the_operator():
    pairs = [pair for pair in catalog.edit_pairs() if pair.change == "exact" and not pair.shape]
    by_operator = {pair.operator: pair for pair in pairs}
    assert set(by_operator) == set(OPERATORS)
    for operator, pair in by_operator.items():
        assert pair.backward == by_operator[INVERSES[operator]].forward
    assert "clockwise" in words(by_operator["rotate_90"].forward)
    assert "counterclockwise" in words(by_operator["rotate_270"].forward)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_followed_by_its_inverse_changes_no_pixel(operator):
    image = gradient(48, 32)
    assert apply(INVERSES[operator], apply(operator, image)).tobytes() == image.tobytes()


def test_rotate_90_turns_clockwise():
    image = gradient(32, 32)
    image.putpixel((0, 0), (255, 0, 0))  # top left goes to top right
    assert apply("rotate_90", image).getpixel((31, 0)) == (255, 0, 0)


def test_the_replication_pair_has_the_published_wording_both_ways():
    (pair,) = [pair for pair in catalog.edit_pairs() if pair.category == "replication"]
    assert (pair.forward, pair.backward, pair.change) == (REPLICA, REPLICA, "none")


def test_every_source_image_has_licence_attribution_and_source():
    for image in catalog.source_images():
        assert image.licence, image.slug
        assert image.attribution, image.slug
        assert image.source_url.startswith("http") or image.origin.startswith("file:"), image.slug
        assert re.fullmatch(r"[0-9a-f]{64}", image.sha256), image.slug


def test_labels_of_images_are_words_not_synonyms_of_the_pairs_own():
    # With a misspelt label, a pair would fit images that it must not fit.
    labels = Counter(label for image in catalog.source_images() for label in image.contains)
    assert all(label == " ".join(label.lower().split()) for label in labels)
    asked = {label for pair in catalog.edit_pairs() for label in pair.absent}
    assert len(asked & set(labels)) > 30


@pytest.mark.parametrize(
    ("file", "fields", "message"),
    [
        ("source_images", {"kind": "face!"}, "kind: 'face!' is not one of face, object, scene"),
        ("source_images", {"licence": " "}, "licence: is empty"),
        ("source_images", {"colour": "red"}, "colour: Unexpected"),
        ("source_images", {"annotations": {"face": [0, 0, 2, 1]}}, "annotations.face.2: should be"),
        ("edit_pairs", {"operator": "rotate_90"}, "operator is 'rotate_90', which does not fit"),
        ("edit_pairs", {"object": ""}, "object is empty"),
        ("edit_pairs", {"kinds": ["faces"]}, "kinds.0: 'faces' is not one of"),
        ("edit_pairs", {"place": "roof"}, "place: 'roof' is not one of eyes, head"),
        ("edit_pairs", {"variants": [{"name": "short"}]}, "variants.0.forward"),
        ("edit_pairs", {"rule": {"do": "paint"}}, "rule: do is 'paint'"),
        ("edit_pairs", {"slug": "sunglasses"}, "slug 'sunglasses' occurs twice"),
    ],
)
def test_a_bad_row_is_named_by_file_row_and_field(content, file, fields, message):
    change_row(content / f"{file}.json", 0, **fields)
    with pytest.raises(CatalogError) as error:
        getattr(catalog, file)()
    assert message in str(error.value)
    assert f"{file}.json: row " in str(error.value)


@pytest.mark.parametrize("text", ["{", '{"rows": []}', '[{"model": "x"}]', "[3]"])
def test_an_invalid_fixture_is_named(content, text):
    (content / "edit_pairs.json").write_text(text)
    with pytest.raises(CatalogError, match=r"edit_pairs\.json"):
        catalog.edit_pairs()


def test_an_unknown_suite_is_refused_with_the_known_names():
    with pytest.raises(SuiteError, match=r"no suite 'smok'; there are .*smoke"):
        catalog.suite("smok")


def test_suites_are_found_by_slug_and_by_version():
    assert catalog.suite("smoke").content_hash == catalog.suite("smoke-v2").content_hash


def test_reading_the_catalog_loads_neither_django_nor_torch():
    code = (
        "import sys; from evaluation.content import catalog, suite_builder; catalog.suites(); "
        "catalog.edit_pairs(); sys.exit(any(m in sys.modules for m in ('django', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
