import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evaluation.content.annotations import UNANNOTATED, Annotations
from evaluation.content.sources import prepare, prepare_annotations

FACE = {
    "face": [0.4, 0.2, 0.6, 0.5],
    "eyes": [[0.45, 0.3], [0.55, 0.3]],
    "mouth": [0.5, 0.42],
    "head_top": [0.5, 0.12],
    "neck": [0.5, 0.58],
}
ROOM = {
    "floor": [[0.1, 0.7, 0.5, 1.0]],
    "wall": [[0.0, 0.0, 0.3, 0.4], [0.7, 0.0, 1.0, 0.4]],
    "text": [{"text": "OPEN", "box": [0.65, 0.5, 0.75, 0.55]}],
}


def test_annotations_survive_json_without_empty_fields():
    known = Annotations.from_dict({**FACE, **ROOM})
    data = json.loads(json.dumps(known.to_dict()))
    assert Annotations.from_dict(data) == known
    assert set(data) == {*FACE, *ROOM}
    assert UNANNOTATED.to_dict() == {}
    assert not UNANNOTATED
    assert known


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"face": [0.1, 0.2, 0.3]}, "^face.3: Field required"),
        ({"face": [0.1, 0.2, 30, 0.4]}, "^face.2: should be less than or equal to 1"),
        ({"face": [0.5, 0.2, 0.5, 0.4]}, "^face: the box .* is empty"),
        ({"face": [0.5, 0.2, True, 0.4]}, "^face.2: should be a valid number"),
        ({"face": "left"}, "^face: should be a valid tuple"),
        ({**FACE, "eyes": [[0.4, 0.3]]}, "^eyes.1: Field required"),
        (
            {**FACE, "eyes": [[0.6, 0.3], [0.4, 0.3]]},
            "^eyes: list the eye on the image's left first",
        ),
        ({**FACE, "mouth": [0.5, None]}, "^mouth.1: should be a valid number"),
        ({"mouth": [0.5, 0.5]}, "face is missing"),
        ({"floor": {"left": 1}}, "^floor: should be a valid tuple"),
        ({"sky": [0.1, 0.2, 0.3, 0.4]}, "^sky.0: should be a valid tuple"),
        ({"ceiling": []}, "^ceiling: Unexpected keyword argument"),
        ({"text": [{"text": "OPEN"}]}, "^text.0.box: Field required"),
        ({"text": [{"text": " ", "box": [0, 0, 1, 1]}]}, "^text.0.text: "),
        ({"text": [{"text": "OPEN", "box": [0, 0, 0, 1]}]}, "^text.0.box: .* is empty"),
        ([], "should be a dictionary"),
    ],
)
def test_an_invalid_annotation_is_named_by_its_field(fields, message):
    with pytest.raises(ValueError, match=message):
        Annotations.from_dict(fields)


def test_a_crop_clips_or_drops_boxes():
    kept = Annotations.from_dict({**FACE, **ROOM}).cropped((0.25, 0.0, 0.75, 1.0))
    assert kept.face == (0.3, 0.2, 0.7, 0.5)
    assert kept.eyes == ((0.4, 0.3), (0.6, 0.3))
    assert kept.floor == ((0.0, 0.7, 0.5, 1.0),)  # 5/8 of the box is left
    assert kept.wall == ()  # only 1/6 of each box is left
    assert [words.box for words in kept.text] == [(0.8, 0.5, 1.0, 0.55)]


def test_a_cut_word_is_dropped():
    known = Annotations.from_dict(ROOM)
    assert known.cropped((0.0, 0.0, 0.74, 1.0)).text == ()
    assert known.cropped((0.6, 0.45, 0.8, 0.6)).text[0].text == "OPEN"


def test_a_face_with_an_eye_outside_the_crop_is_dropped():
    known = Annotations.from_dict(FACE)
    assert known.cropped((0.0, 0.0, 0.5, 1.0)) == UNANNOTATED
    beheaded = known.cropped((0.0, 0.2, 1.0, 1.0))
    assert beheaded.face is not None
    assert beheaded.head_top is None


@given(
    st.integers(256, 2000),
    st.integers(256, 2000),
    st.sampled_from([256, 512, 1024]),
    st.floats(0.3, 0.7),
    st.floats(0.3, 0.7),
)
def test_annotations_stay_on_the_pixels_they_were_drawn_on(width, height, size, x, y):
    original = Image.new("RGB", (width, height), "white")
    box = (
        round(x * width) - 30,
        round(y * height) - 30,
        round(x * width) + 30,
        round(y * height) + 30,
    )
    original.paste("black", box)
    fractions = [box[0] / width, box[1] / height, box[2] / width, box[3] / height]
    known = Annotations.from_dict({"sky": [[min(max(v, 0.0), 1.0) for v in fractions]]})
    prepared = prepare(original, size)
    mapped = prepare_annotations(known, original.size, size)
    for left, top, right, bottom in mapped.sky:
        inner = (
            round(left * prepared.width) + 2,
            round(top * prepared.height) + 2,
            round(right * prepared.width) - 2,
            round(bottom * prepared.height) - 2,
        )
        if inner[0] < inner[2] and inner[1] < inner[3]:
            assert max(prepared.crop(inner).convert("L").getextrema()) < 128
