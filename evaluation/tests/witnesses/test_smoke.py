"""Witnesses on the smoke suite: honest edits are detected, tricks are not."""

import pytest
from PIL import Image, ImageDraw

from evaluation.content import catalog, sources
from evaluation.editors import load_editor
from evaluation.editors.base import EditContext
from evaluation.images import EncodedImage
from evaluation.measuring.subject import chain_subject
from evaluation.witnesses import Panel, TripToJudge
from evaluation.witnesses.base import Verdict

SMOKE = catalog.suite("smoke")


def ball(image, case):
    """Draw a red ball for every prompt."""
    image, side = image.copy(), min(image.size) // 5
    left, top = image.width // 2, image.height - 2 * side
    ImageDraw.Draw(image).ellipse((left, top, left + side, top + side), fill=(205, 25, 30))
    return image


def patch(image, case):
    """Invert a patch of the image for every prompt."""
    image, side = image.copy(), min(image.size) // 4
    box = (side, side, 2 * side, 2 * side)
    image.paste(Image.eval(image.crop(box), lambda value: 255 - value), box)
    return image


def honest(image, case):
    pair, source = SMOKE.pair_by_slug[case.pair], SMOKE.image_by_slug[case.image]
    context = EditContext(annotations=source.annotations)
    asked = EncodedImage.from_image(image)
    return load_editor("oracle").edit(asked, pair.forward, context=context).image.decoded


EDITORS = {"oracle": honest, "no-op": lambda image, case: image, "ball": ball, "patch": patch}


@pytest.fixture(scope="module")
def verdicts():
    """Return the joint verdicts of the witnesses, by editor and case."""
    panel = Panel()
    if missing := [why for name, why in panel.not_run.items() if name != "clip"]:
        pytest.skip("; ".join(missing))
    found = {name: {} for name in EDITORS}
    for case in SMOKE.cases:
        pair, image = SMOKE.pair_by_slug[case.pair], SMOKE.image_by_slug[case.image]
        source = EncodedImage.from_image(sources.load_prepared(image, SMOKE.size))
        for name, edit in EDITORS.items():
            edited = EncodedImage.from_image(edit(source.decoded, case))
            subject = chain_subject(image, source, edited, pair)
            trip = TripToJudge(source, source, edited, source, pair, subject)
            found[name][case.slug] = Verdict.from_evidence(panel.evidence(trip))
    return found


def share(verdicts, question):
    judged = {slug: getattr(v, question) for slug, v in verdicts.items()}
    judged = {slug: verdict for slug, verdict in judged.items() if verdict is not None}
    assert len(judged) >= 5
    return sum(judged.values()) / len(judged), judged


@pytest.mark.slow
def test_the_oracles_edits_are_detected_as_made_and_undone(verdicts):
    for question in ("made", "undone"):
        seen, judged = share(verdicts["oracle"], question)
        assert seen >= 0.85, judged


@pytest.mark.slow
@pytest.mark.parametrize("trick", ["no-op", "ball", "patch"])
def test_no_trick_passes_for_the_edits(verdicts, trick):
    seen, judged = share(verdicts[trick], "made")
    assert seen < 0.15, judged
