"""CLIP's direction is used if CLIP is installed, else the reason is reported."""

from types import SimpleNamespace

import pytest
from PIL import Image

from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from evaluation.witnesses import Panel, TripToJudge
from evaluation.witnesses.by_metric import MIN_COSINE, ClipDirection

WORDS = {"source_text": "a man", "target_text": "a man with a hat"}
HAT = EditPair("hat", "accessories", "Add a hat.", "Remove it.", "local", object="hat", **WORDS)
BARE, HATTED = (EncodedImage.from_image(Image.new("RGB", (32, 32), c)) for c in ("grey", "red"))


def looked(there, back, pair=HAT, restored=BARE):
    """Return the evidence for these cosines of forward and backward edit."""
    asked = []

    def direction(before, after, one, other):
        asked.append((one, other))
        return back if len(asked) > 1 else there

    witness = ClipDirection()
    witness.share({"clip": SimpleNamespace(direction=direction)})
    found = witness.examine(TripToJudge(BARE, BARE, HATTED, restored, pair))
    return found, asked


@pytest.mark.parametrize(
    ("there", "back", "made", "undone"),
    [
        (MIN_COSINE, MIN_COSINE, True, True),
        (0.3, 0.0, True, False),
        (MIN_COSINE - 0.01, 0.3, False, None),  # an edit that was not made cannot be undone
        (None, None, False, None),  # the image did not change at all
        (-0.4, 0.2, False, None),
    ],
)
def test_an_edit_is_made_and_undone_if_images_move_like_their_captions(there, back, made, undone):
    found, asked = looked(there, back)
    assert (found.made, found.undone, found.gates) == (made, undone, False)
    assert asked[0] == ("a man", "a man with a hat")
    assert asked[1:] == ([("a man with a hat", "a man")] if made else [])


def test_a_pair_without_captions_gives_no_evidence():
    plain = EditPair("hat", "accessories", "Add a hat.", "Remove it.", "local", object="hat")
    assert looked(0.5, 0.5, plain) == (None, [])


def test_without_weights_it_is_not_run_and_names_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVERGEBENCH_WEIGHTS", str(tmp_path))
    monkeypatch.delenv("CLIP_WEIGHTS", raising=False)
    panel = Panel(["clip"])
    assert not panel.witnesses
    assert "CLIP_WEIGHTS" in panel.not_run["clip"] or "not installed" in panel.not_run["clip"]
    assert "not measured" in ClipDirection.cannot
