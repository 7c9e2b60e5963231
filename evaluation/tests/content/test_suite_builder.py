import random
from collections import Counter
from dataclasses import replace

import pytest

from evaluation.content import catalog, suite_builder
from evaluation.content.annotations import UNANNOTATED
from evaluation.content.suite_builder import Candidate, Draft, balance, build, shipped_drafts
from evaluation.content.suites import EditPair, SuiteError, SuiteImage


def candidates(count, kinds=("face", "object", "scene")):
    return [
        Candidate(
            SuiteImage(
                slug=f"image-{i}",
                sha256=str(i),
                width=512,
                height=512,
                kind=kinds[i % len(kinds)],
                origin=f"skimage:{i}",
                title="T",
                author="A",
                licence="CC0-1.0",
                attribution="A",
            )
        )
        for i in range(count)
    ]


def pairs():
    def local(slug, category, kinds):
        return EditPair(
            slug=slug,
            category=category,
            forward=f"Add a {slug}.",
            backward=f"Remove the {slug}.",
            change="local",
            object=slug,
            kinds=kinds,
        )

    return [
        *(local(s, "accessories", ("face",)) for s in ("hat", "scarf", "glasses")),
        *(local(s, "objects", ("object", "scene")) for s in ("ball", "cup", "lamp")),
        EditPair(
            slug="flip",
            category="geometry",
            forward="Flip.",
            backward="Flip.",
            change="exact",
            operator="flip_horizontal",
        ),
    ]


def draft(**fields):
    return Draft(**{"slug": "d", "title": "D", "trips": 2, "size": 256, "cases": 20, **fields})


def test_the_same_draft_gives_the_same_suite_in_any_order():
    first = build(draft(), candidates(9), pairs())
    for seed in range(5):
        mixed, shuffled = candidates(9), pairs()
        random.Random(seed).shuffle(mixed)
        random.Random(seed).shuffle(shuffled)
        assert build(draft(), mixed, shuffled).content_hash == first.content_hash
    assert build(draft(seed=1), candidates(9), pairs()).content_hash != first.content_hash


def test_an_even_suite_gives_every_stratum_the_same_number_of_cases():
    suite = build(draft(cases=15), candidates(30), pairs())
    assert set(balance(suite).values()) == {2, 3}
    assert len(suite.cases) == 15


def test_kinds_take_turns_so_that_a_few_cases_are_not_all_faces():
    suite = build(draft(cases=3), candidates(30), pairs())
    assert {kind for kind, _ in balance(suite)} == {"face", "object", "scene"}


def test_required_content_is_included_for_any_seed():
    asked = draft(cases=4, must_images=("image-7", "image-8"), must_pairs=("lamp", "flip"))
    for seed in range(5):
        suite = build(replace(asked, seed=seed), candidates(30), pairs())
        assert len(suite.cases) == 4
        assert {"image-7", "image-8"} <= set(suite.image_by_slug)
        assert {"lamp", "flip"} <= set(suite.pair_by_slug)
    # There are more requirements than cases, and requirements come first.
    many = tuple(f"image-{n}" for n in range(6))
    assert len(build(draft(cases=2, must_images=many), candidates(9), pairs()).cases) == 6


def test_required_content_that_fits_nowhere_is_named():
    with pytest.raises(SuiteError, match="the required pair hat fits nothing"):
        build(draft(kinds=("scene",), must_pairs=("hat",)), candidates(9), pairs())
    with pytest.raises(SuiteError, match="the required image nothing"):
        build(draft(must_images=("nothing",)), candidates(9), pairs())


def test_cases_beyond_a_small_stratum_go_to_the_others():
    suite = build(draft(cases=18), candidates(6), pairs())
    assert len(suite.cases) == 18
    assert balance(suite)[("face", "geometry")] == 2


def test_images_share_the_cases_evenly():
    suite = build(draft(cases=30), candidates(12), pairs())
    used = Counter(case.image for case in suite.cases)
    assert max(used.values()) - min(used.values()) <= 1


def test_no_case_occurs_twice_and_no_unused_image_or_pair_is_frozen():
    suite = build(draft(cases=12), candidates(40), pairs())
    assert len(set(suite.cases)) == len(suite.cases)
    assert {case.image for case in suite.cases} == set(suite.image_by_slug)
    assert {case.pair for case in suite.cases} == set(suite.pair_by_slug)


def test_filters_are_obeyed():
    suite = build(draft(kinds=("face",), categories=("accessories",)), candidates(9), pairs())
    assert set(balance(suite)) == {("face", "accessories")}
    some = build(draft(image_slugs=("image-1",), pair_slugs=("cup",)), candidates(9), pairs())
    assert [case.slug for case in some.cases] == ["image-1--cup"]


def test_requesting_more_cases_than_fit_is_an_error_with_their_number():
    asked = draft(shares={("face", "accessories"): 10})
    with pytest.raises(SuiteError, match="10 cases of face x accessories, but only 9 fit"):
        build(asked, candidates(9), pairs())


def test_symmetric_images_are_kept_from_their_operator():
    flat = [Candidate(c.image, frozenset({"flip_horizontal"})) for c in candidates(6)]
    assert "geometry" not in {category for _, category in balance(build(draft(), flat, pairs()))}


@pytest.mark.parametrize("suite", catalog.suites(), ids=lambda suite: suite.slug)
def test_every_shipped_suite_may_be_frozen(suite):
    draft = next(one for one in shipped_drafts() if one.slug == suite.slug)
    assert suite_builder.refusals(suite, draft.narrow) == []
    assert draft.narrow == (suite.slug in ("replication", "restoration", "hires", "shapes"))
    assert all(image.licence and image.attribution for image in suite.images)


def test_the_suites_are_as_large_as_the_site_says():
    found = {suite.slug: suite for suite in catalog.suites()}
    board = {"smoke", "lite", "standard", "portraits"}
    assert set(found) == board | {"replication", "restoration", "hires", "shapes"}
    smoke, lite, standard = (found[slug] for slug in ("smoke", "lite", "standard"))
    assert (len(smoke.cases), smoke.trips, smoke.size) == (14, 8, 256)
    assert len(smoke.images) >= 10
    assert len(smoke.pairs) >= 12
    assert "self-test" in smoke.description
    assert (len(lite.cases), lite.trips, lite.size) == (40, 10, 512)
    assert sum(lite.repeats_of(case) == 2 for case in lite.cases) == 13
    assert lite.chains == 53
    assert (len(standard.cases), standard.trips, standard.size) == (300, 20, 1024)
    assert {pair.category for pair in standard.pairs} == set(catalog.CATEGORIES) - {
        "replication",
        "restoration",
    }
    assert found["replication"].trips * 2 == 100
    assert len(found["portraits"].images) >= 30
    sides = sorted(max(image.width, image.height) for image in found["hires"].images)
    assert sides[0] >= 2400
    assert sides.count(3840) == 5


def test_no_committed_image_is_heavy():
    for image in (catalog.folder() / "pictures").iterdir():
        assert image.stat().st_size < 1_500_000, image.name


def test_a_suite_too_narrow_to_rank_must_be_marked():
    narrow = build(draft(), candidates(9), pairs())
    reasons = " ".join(suite_builder.refusals(narrow))
    assert "no category may have more than a quarter" in reasons
    assert "9 images are too few" in reasons
    assert suite_builder.refusals(narrow, narrow=True) == []


def test_a_case_without_its_place_is_refused_even_in_a_narrow_suite():
    suite = catalog.suite("smoke")
    bare = tuple(replace(image, annotations=UNANNOTATED) for image in suite.images)
    reasons = suite_builder.refusals(replace(suite, images=bare), narrow=True)
    assert any("no room for" in reason for reason in reasons)


def test_small_images_and_unwanted_subkinds_are_left_out():
    wanted = draft(smallest_side=513)
    with pytest.raises(SuiteError, match="no image fits"):
        build(wanted, candidates(9), pairs())
    with pytest.raises(SuiteError, match="no image fits"):
        build(draft(without_subkinds=("",)), candidates(9), pairs())
