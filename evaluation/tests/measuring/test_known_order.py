"""The reference editors have their known order on every shipped suite."""

from __future__ import annotations

from itertools import pairwise

import pytest

from evaluation.content import catalog, sources
from evaluation.editors import find_row, load_row
from evaluation.editors.base import EditContext
from evaluation.images import EncodedImage
from evaluation.measuring.change_seen import change_seen
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.testing.simulations.noise_spread import covers_the_scale, half_lives

#: Weaker grain cannot be measured in one trip: it is lost in the rounding of sent images.
ORDER = ("oracle", "noise-2", "noise-5", "noise-8")


def few_cases(suite):
    """Two cases of smoke, of different categories; one of other suites, a small one of large images."""
    if suite.size > 1024:
        edited = [case for case in suite.cases if suite.pair_by_slug[case.pair].change != "none"]
        return [min(edited, key=lambda case: suite.image_by_slug[case.image].width)]
    by_category = {suite.pair_by_slug[case.pair].category: case for case in suite.cases}
    count = 2 if suite.slug == "smoke" else 1
    return sorted(by_category.values(), key=lambda case: case.slug)[:count]


def references(suite):
    """All reference editors, or some of them if images are large."""
    return ORDER if suite.size <= 1024 else (ORDER[0], *ORDER[2:])


def prepared(image, size):
    row = next(one for one in catalog.source_images() if one.slug == image.slug)
    decoded = EncodedImage.from_bytes(sources.original(row.origin, row.sha256)).decoded
    return EncodedImage.from_image(sources.prepare(decoded, size))


@pytest.mark.slow
@pytest.mark.parametrize("suite", catalog.suites(), ids=lambda suite: suite.slug)
def test_the_reference_editors_keep_their_known_share(suite, real_network):
    scorer, rows = Scorer(["overall"]), catalog.editing_models()
    for case in few_cases(suite):
        image, pair = suite.image_by_slug[case.image], suite.pair_by_slug[case.pair]
        source, places = prepared(image, suite.size), image.annotations
        restored, edits = {}, {}
        for name in (*references(suite), "blank-card", "do-nothing"):
            editor = load_row(find_row(rows, name))
            edits[name] = editor.send(source, pair.forward, 1, EditContext(None, places)).image
            context = EditContext(source, places)
            restored[name] = editor.send(edits[name], pair.backward, 2, context).image
        subject = chain_subject(image, source, edits["oracle"], pair)
        distances = scorer.score(source, restored.values(), subject).distances["overall"]
        lost = dict(zip(restored, distances, strict=True))
        assert lost["oracle"] == pytest.approx(0, abs=1e-6)
        steps = pairwise(references(suite))
        assert all(lost[better] < lost[worse] for better, worse in steps), (case, lost)
        assert lost["blank-card"] > 0.95
        # An editor that does nothing keeps everything, and is caught unless that was requested.
        assert lost["do-nothing"] < lost["noise-5"]
        seen = change_seen(source.decoded, edits["do-nothing"].decoded, pair).seen
        assert not seen or pair.change == "none", case


def test_noise_of_four_strengths_spreads_over_the_scale_of_smoke(real_network):
    """The scale of the board: half-lives of about N/10, N/4, N/2 and N, in their known order."""
    smoke = catalog.suite("smoke")
    found = list(half_lives(smoke, 4).values())  # the strongest first
    lasts = [smoke.trips * 10 if one is None else one for one in found]
    assert lasts == sorted(lasts)
    assert covers_the_scale(found, smoke.trips), lasts
