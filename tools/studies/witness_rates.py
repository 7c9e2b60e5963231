"""Error rates of the witnesses on drawn edits, in images with and without wear.

Witnesses are programs that check an edit, such as an object detector. They should confirm that an
edit was made, that it was undone, and that all other things are still there. They should deny this
if a red ball was drawn instead of the edit, if the edit was not undone, if a thing was painted
over, or if the face is another person's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from evaluation.content import operators, sources
from evaluation.content.suites import EditPair, Suite, SuiteImage
from evaluation.editors import load_editor
from evaluation.editors.base import EditContext
from evaluation.editors.drawings import draw
from evaluation.images import EncodedImage
from evaluation.measuring.error_rates import ErrorRate
from evaluation.measuring.subject import chain_subject
from evaluation.metrics.base import Subject
from evaluation.testing.drifts import Drift, as_jpeg, noisy
from evaluation.witnesses import Panel, TripToJudge
from evaluation.witnesses.detector import MIN_AREA, SOURCE_CONFIDENCE, detector

#: Drawings of things to wear, whose witnesses may end a chain.
WORN_THINGS = ("glasses", "sunglasses", "hat", "cap", "beanie")
#: Nothing is drawn on portraits with these labels.
COVERED = frozenset({"glasses", "sunglasses", "hat", "cap", "beanie", "headwear", "headscarf"})
NOT_FACES = frozenset({"profile", "cropped head", "sculpture", "animal"})


def through_latent(image: Image.Image) -> Image.Image:
    """Pass an image once through the autoencoder of the latent editor."""
    editor: Any = load_editor("latent")
    answer: EncodedImage = editor.damage(image, np.random.default_rng(0))
    return answer.decoded


WEAR: dict[str, Drift] = {
    "nothing else": lambda image: image,
    "JPEG 40": lambda image: as_jpeg(image, 40),
    "noise of 8 levels": lambda image: noisy(image, 8),
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(0.7)),
    "an autoencoder": through_latent,
}


@dataclass(frozen=True)
class LabelledTrip:
    """A trip with a description of its edit, and the true verdicts by question."""

    name: str
    what: str
    truth: Mapping[str, bool]
    trip: TripToJudge
    #: The only witness to test; empty for all.
    of: str = ""


class Tally:
    """Count right and wrong verdicts by witness, question and edit."""

    def __init__(self) -> None:
        self._verdicts: dict[tuple[str, str, bool], dict[str, bool]] = defaultdict(dict)

    def add(self, panel: Panel, labelled: LabelledTrip) -> None:
        for item in panel.evidence(labelled.trip):
            if labelled.of not in ("", item["witness"]):
                continue
            for question, truth in labelled.truth.items():
                if item.get(question) is not None:
                    key = item["witness"], f"{question}, {labelled.what}", truth
                    self._verdicts[key][labelled.name] = item[question]

    def rates(self) -> Iterator[ErrorRate]:
        for (of, what, truth), verdicts in sorted(self._verdicts.items()):
            wrong = tuple(name for name, verdict in verdicts.items() if verdict is not truth)
            yield ErrorRate(of, what, truth, len(verdicts), sum(verdicts.values()), wrong)


def drawn_rates(panel: Panel, suite: Suite) -> list[ErrorRate]:
    """Measure the suite's own cases: the oracle's edits, the same not undone, red balls instead."""
    return _rates(panel, _drawn(suite))


def worn_rates(panel: Panel, suite: Suite) -> list[ErrorRate]:
    """Measure each of WORN_THINGS on every bare annotated face, with kinds of wear in turn."""
    return _rates(panel, _worn(suite))


def flipped_rates(panel: Panel, suite: Suite) -> list[ErrorRate]:
    """Measure every flip and turn of every image, with kinds of wear in turn."""
    return _rates(panel, _flipped(suite))


def rest_rates(panel: Panel, suite: Suite) -> list[ErrorRate]:
    """Measure every image with wear, with a thing painted over, and with another face."""
    return _rates(panel, _bystanders(suite))


def _rates(panel: Panel, trips: Iterable[LabelledTrip]) -> list[ErrorRate]:
    tally = Tally()
    for labelled in trips:
        tally.add(panel, labelled)
    return list(tally.rates())


def _drawn(suite: Suite) -> Iterator[LabelledTrip]:
    editor = load_editor("oracle")
    for case in suite.cases:
        pair, image = suite.pair_by_slug[case.pair], suite.image_by_slug[case.image]
        if not pair.witness and pair.change != "exact":
            continue
        source = EncodedImage.from_image(sources.load_prepared(image, suite.size))
        if pair.change == "exact":
            edited = operators.apply(pair.operator, source.decoded)
        else:
            context = EditContext(annotations=image.annotations)
            edited = editor.send(source, pair.forward, None, context).image.decoded
        ball = draw("ball", source.decoded, image.annotations)
        name = f"{suite.slug}/{case.slug}"
        for wear, worn in WEAR.items():
            after, back, else_ = (
                EncodedImage.from_image(worn(i)) for i in (edited, source.decoded, ball)
            )
            subject = chain_subject(image, source, after, pair)

            def trip(
                y: EncodedImage,
                x: EncodedImage,
                about: Subject = subject,
                source: EncodedImage = source,
                pair: EditPair = pair,
            ) -> TripToJudge:
                return TripToJudge(source, source, y, x, pair, about)

            yield LabelledTrip(name, wear, {"made": True, "undone": True}, trip(after, back))
            yield LabelledTrip(name, f"left on, {wear}", {"undone": False}, trip(after, after))
            if pair.object != "ball":
                about = chain_subject(image, source, else_, pair)
                what = f"a red ball instead, {wear}"
                yield LabelledTrip(name, what, {"made": False}, trip(else_, back, about))


def _flipped(suite: Suite) -> Iterator[LabelledTrip]:
    wears = cycle(WEAR.items())
    for image in suite.images:
        source = EncodedImage.from_image(sources.load_prepared(image, suite.size))
        for operator in operators.OPERATORS:
            wear, worn = next(wears)
            pair = EditPair(operator, "geometry", "", "", "exact", operator=operator)
            flipped = operators.apply(operator, source.decoded)
            after, back = (EncodedImage.from_image(worn(i)) for i in (flipped, source.decoded))
            name, what = f"{image.slug}--{operator}", f"every move, {wear}"
            trip = TripToJudge(source, source, after, back, pair)
            yield LabelledTrip(name, what, {"made": True, "undone": True}, trip)
            yield LabelledTrip(
                name, f"left on, {what}", {"undone": False}, replace(trip, restored=after)
            )
            yield LabelledTrip(
                name, f"not moved, {what}", {"made": False}, replace(trip, edited=back)
            )


def _worn(suite: Suite) -> Iterator[LabelledTrip]:
    wears = cycle(WEAR.items())
    bare = [p for p in suite.images if _is_bare(p)]
    for image in bare:
        source = EncodedImage.from_image(sources.load_prepared(image, suite.size))
        ball = draw("ball", source.decoded, image.annotations)
        for thing in WORN_THINGS:
            wear, worn = next(wears)
            pair = EditPair(
                thing, "accessories", f"Add {thing}.", f"Remove {thing}.", "local", object=thing
            )
            drawn = draw(thing, source.decoded, image.annotations)
            after, back, else_ = (
                EncodedImage.from_image(worn(i)) for i in (drawn, source.decoded, ball)
            )
            name, subject = f"{image.slug}--{thing}", chain_subject(image)
            trip = TripToJudge(source, source, after, back, pair, subject)
            what = f"worn things, {wear}"
            yield LabelledTrip(name, what, {"made": True, "undone": True}, trip)
            yield LabelledTrip(
                name, f"left on, {what}", {"undone": False}, replace(trip, restored=after)
            )
            instead = replace(trip, edited=else_)
            yield LabelledTrip(name, f"a red ball instead, {what}", {"made": False}, instead)


def _is_bare(image: SuiteImage) -> bool:
    has, face = set(image.contains), image.annotations
    whole = face.face and face.eyes and face.head_top
    return bool(whole) and "person" in has and not has & (COVERED | NOT_FACES)


def _bystanders(suite: Suite) -> Iterator[LabelledTrip]:
    pair = EditPair("nothing", "replication", "Nothing.", "Nothing.", "none")
    faces = [p for p in suite.images if _is_bare(p)]
    for image in suite.images:
        source = EncodedImage.from_image(sources.load_prepared(image, suite.size))
        subject = chain_subject(image)
        others = [p for p in faces if p.slug != image.slug]

        def trip(
            image: Image.Image, source: EncodedImage = source, subject: Subject = subject
        ) -> TripToJudge:
            return TripToJudge(
                source, source, source, EncodedImage.from_image(image), pair, subject
            )

        for wear, worn in WEAR.items():
            yield LabelledTrip(image.slug, wear, {"kept": True}, trip(worn(source.decoded)))
        if erased := _erased(source.decoded):
            what = "a thing painted over"
            yield LabelledTrip(image.slug, what, {"kept": False}, trip(erased), "rest")
        if image in faces and others:
            other = others[len(image.slug) % len(others)]
            exchanged = _other_face(source.decoded, image, suite, other)
            what = "another face"
            yield LabelledTrip(image.slug, what, {"kept": False}, trip(exchanged), "identity")


def _erased(image: Image.Image) -> Image.Image | None:
    """Inpaint the most confidently detected thing; None without a thing of moderate size."""
    import cv2

    things = (
        t
        for t in detector().things(image)
        if t.confidence >= SOURCE_CONFIDENCE and MIN_AREA <= t.area <= 0.3
    )
    thing = next(things, None)
    if thing is None:
        return None
    left, top, right, bottom = (
        round(s * side) for s, side in zip(thing.box, image.size * 2, strict=True)
    )
    pixels = np.asarray(image)
    mask = np.zeros(pixels.shape[:2], np.uint8)
    mask[top:bottom, left:right] = 255
    return Image.fromarray(cv2.inpaint(pixels, mask, 5, cv2.INPAINT_TELEA))


def _other_face(
    image: Image.Image, own: SuiteImage, suite: Suite, other: SuiteImage
) -> Image.Image:
    """Replace the face of an image by the face of another image."""
    theirs = sources.load_prepared(other, suite.size)
    left, top, right, bottom = _face_box(own, image.size)
    exchanged = image.copy()
    patch = theirs.crop(_face_box(other, theirs.size)).resize((right - left, bottom - top))
    exchanged.paste(patch, (left, top))
    return exchanged


def _face_box(image: SuiteImage, size: tuple[int, int]) -> tuple[int, int, int, int]:
    left, top, right, bottom = image.annotations.face or (0.0, 0.0, 1.0, 1.0)
    wide, high = size
    return round(left * wide), round(top * high), round(right * wide), round(bottom * high)


#: The measurements on a suite, by the value of --measure.
MEASURES: dict[str, Callable[[Panel, Suite], list[ErrorRate]]] = {
    "drawn": drawn_rates,
    "worn": worn_rates,
    "flipped": flipped_rates,
    "rest": rest_rates,
}
