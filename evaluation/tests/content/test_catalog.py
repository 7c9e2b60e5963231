import json
import re
import subprocess
import sys
from collections import Counter

import pytest

from evaluation.content import catalog
from evaluation.content.catalog import CatalogError
from evaluation.content.operators import INVERSES, OPERATORS, apply, undo
from evaluation.content.suites import EditPair, SuiteError
from evaluation.testing.pictures import gradient

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


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def test_at_least_thirty_active_pairs_ship_in_the_four_first_categories():
    active = Counter(pair.category for pair in catalog.edit_pairs() if pair.status == "active")
    assert sum(active.values()) >= 30
    assert set(active) == {"accessories", "scene-objects", "geometric", "replication"}


def test_every_local_pair_names_its_object_in_every_wording_both_ways():
    # Reference editors follow prompts by rule, so the object's word must be there.
    for pair in catalog.edit_pairs():
        if pair.change != "local":
            continue
        wordings = [(pair.forward, pair.backward)]
        wordings += [(variant.forward, variant.backward) for variant in pair.variants]
        for forward, backward in wordings:
            name = pair.object.replace("-", " ")
            assert name in " ".join(words(forward)), (pair.slug, forward)
            assert name in " ".join(words(backward)), (pair.slug, backward)
            assert words(forward)[0] == "add"
            assert words(backward)[0] == "remove"


def test_no_picture_may_already_contain_what_a_backward_prompt_would_remove():
    for pair in catalog.edit_pairs():
        if pair.change == "local":
            name = pair.object.replace("-", " ")
            assert any(name in label or label in name for label in pair.absent), pair.slug


def test_exact_pairs_undo_themselves_and_their_prompts_agree_with_the_operator():
    by_operator = {pair.operator: pair for pair in catalog.edit_pairs() if pair.change == "exact"}
    assert set(by_operator) == set(OPERATORS)
    for operator, pair in by_operator.items():
        assert pair.backward == by_operator[INVERSES[operator]].forward
    assert "clockwise" in words(by_operator["rotate_90"].forward)
    assert "counterclockwise" in words(by_operator["rotate_270"].forward)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_followed_by_its_inverse_changes_no_pixel(operator):
    image = gradient(48, 32)
    assert undo(operator, apply(operator, image)).tobytes() == image.tobytes()


def test_rotate_90_turns_clockwise():
    image = gradient(32, 32)
    image.putpixel((0, 0), (255, 0, 0))  # top left goes to top right
    assert apply("rotate_90", image).getpixel((31, 0)) == (255, 0, 0)


def test_the_replication_pair_has_the_published_wording_both_ways():
    (pair,) = [pair for pair in catalog.edit_pairs() if pair.category == "replication"]
    assert (pair.forward, pair.backward, pair.change) == (REPLICA, REPLICA, "none")


def test_global_pairs_are_drafts_until_a_models_own_drift_is_measured():
    assert {p.status for p in catalog.edit_pairs() if p.change == "global"} == {"draft"}


def test_a_catalogued_pair_becomes_exactly_what_a_suite_freezes():
    pair = catalog.edit_pairs()[0]
    assert type(pair.pair) is EditPair
    assert pair.pair.forward == pair.forward


def test_every_source_image_has_licence_attribution_and_source():
    for image in catalog.source_images():
        assert image.licence, image.slug
        assert image.attribution, image.slug
        assert image.source_url.startswith("http") or image.origin.startswith("file:"), image.slug
        assert re.fullmatch(r"[0-9a-f]{64}", image.sha256), image.slug


def test_labels_of_pictures_are_words_not_synonyms_of_the_pairs_own():
    # A typo in a label would silently let a pair through.
    labels = Counter(label for image in catalog.source_images() for label in image.contains)
    assert all(label == " ".join(label.lower().split()) for label in labels)
    asked = {label for pair in catalog.edit_pairs() for label in pair.absent}
    assert len(asked & set(labels)) > 30


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "face!"}, "kind is 'face!', not one of face, object, scene"),
        ({"made": "dreamt"}, "made is 'dreamt'"),
        ({"licence": " "}, "licence is empty"),
        ({"attribution": ""}, "attribution is empty"),
        ({"colour": "red"}, "'colour'"),
    ],
)
def test_a_bad_source_image_is_named_by_file_row_and_field(content, fields, message):
    change_row(content / "source_images.json", 2, **fields)
    with pytest.raises(CatalogError) as error:
        catalog.source_images()
    assert message in str(error.value)
    assert "source_images.json: row 3 (coffee)" in str(error.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"change": "magic"}, "change is 'magic'"),
        ({"operator": "rotate_90"}, "operator is 'rotate_90', but change is not 'exact'"),
        ({"object": ""}, "object is empty"),
        ({"kinds": ["faces"]}, "kinds is 'faces'"),
        ({"variants": [{"name": "short"}]}, "forward"),
        ({"slug": "sunglasses"}, "slug 'sunglasses' occurs twice"),
    ],
)
def test_a_bad_edit_pair_is_named_by_file_row_and_field(content, fields, message):
    change_row(content / "edit_pairs.json", 0, **fields)
    with pytest.raises(CatalogError) as error:
        catalog.edit_pairs()
    assert message in str(error.value)
    assert "edit_pairs.json: row" in str(error.value)


@pytest.mark.parametrize("text", ["{", '{"rows": []}', '[{"model": "x"}]', "[3]"])
def test_a_file_that_is_no_fixture_is_named(content, text):
    (content / "edit_pairs.json").write_text(text)
    with pytest.raises(CatalogError, match=r"edit_pairs\.json"):
        catalog.edit_pairs()


def test_a_missing_file_is_named(content):
    (content / "edit_pairs.json").unlink()
    with pytest.raises(CatalogError, match=r"edit_pairs\.json"):
        catalog.edit_pairs()


def test_an_unknown_suite_is_answered_with_the_known_ones():
    with pytest.raises(SuiteError, match=r"no suite 'smok'; there are .*smoke"):
        catalog.suite("smok")


def test_suites_are_found_by_slug_and_by_version():
    assert catalog.suite("smoke").content_hash == catalog.suite("smoke-v1").content_hash


def test_reading_the_catalog_loads_neither_django_nor_torch():
    code = (
        "import sys; from evaluation.content import catalog, suite_builder; catalog.suites(); "
        "catalog.edit_pairs(); sys.exit(any(m in sys.modules for m in ('django', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
