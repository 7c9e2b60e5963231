"""Error rates of "change seen", the verdict whether an edit was made: missed edits, false alarms.

They are measured on shipped images. The reference editors draw or flip; then the whole image is
changed as a model may change it, for example by light, noise or a shift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from PIL import Image, ImageFilter

from evaluation.content import operators, sources
from evaluation.content.annotations import Annotations
from evaluation.content.suites import EditPair, Suite
from evaluation.editors.instructions import follow, parse
from evaluation.images import fit
from evaluation.measuring.change_seen import change_seen
from evaluation.measuring.error_rates import ErrorRate
from evaluation.testing.drifts import Drift, as_jpeg, lit, moved, noisy, wobbly

#: Returns an answer, given the image and its correct flip.
Answer = Callable[[Image.Image, Image.Image], Image.Image]

WARMTH = (25, 0, -25)


@dataclass(frozen=True)
class Shipped:
    """A case of a shipped suite with its image."""

    slug: str
    image: Image.Image
    pair: EditPair
    places: Annotations

    @cached_property
    def edited(self) -> Image.Image:
        """The image after the forward edit by a reference editor."""
        return follow(parse(self.pair.forward), self.image, self.places)


def shipped_cases(suites: Iterable[Suite], change: str) -> list[Shipped]:
    """Return the suites' cases with this change of the pair ("local" or "exact")."""
    cases = []
    for suite in suites:
        images: dict[str, Image.Image] = {}
        for case in suite.cases:
            pair = suite.pair_by_slug[case.pair]
            if pair.change != change:
                continue
            image = suite.image_by_slug[case.image]
            if case.image not in images:
                images[case.image] = sources.load_prepared(image, suite.size)
            slug = f"{suite.slug}/{case.slug}"
            cases.append(Shipped(slug, images[case.image], pair, image.annotations))
    return cases


def error_rates(suites: Iterable[Suite]) -> Iterator[ErrorRate]:
    """Yield the rows of the table."""
    suites = list(suites)
    local, exact = (shipped_cases(suites, change) for change in ("local", "exact"))
    for name, drift in DRIFTS.items():
        yield with_drawing(name, drift, local)
    for name, drift in DRIFTS.items():
        yield without_edit(name, drift, local)
    for name, drift in DAMAGES.items():
        yield with_flip(name, partial(_flipped_and_damaged, drift), exact, seen=True)
    for name, answer in FALSE_FLIPS.items():
        yield with_flip(name, answer, exact, seen=False)


def _flipped_and_damaged(drift: Drift, _: Image.Image, truth: Image.Image) -> Image.Image:
    return drift(truth)


def with_drawing(name: str, drift: Drift, cases: Iterable[Shipped]) -> ErrorRate:
    """Count missed drawings in images with this drift (a change of the whole image)."""
    verdicts = {case.slug: change_seen(case.image, drift(case.edited), case.pair) for case in cases}
    return _rate("local", name, True, {slug: v.seen for slug, v in verdicts.items()})


def without_edit(name: str, drift: Drift, cases: Iterable[Shipped]) -> ErrorRate:
    """Count false alarms in images with this drift and no drawing, each image once."""
    images = {case.slug.partition("--")[0]: case for case in cases}
    verdicts = {
        slug: change_seen(case.image, drift(case.image), case.pair).seen
        for slug, case in images.items()
    }
    return _rate("local", name, False, verdicts)


def with_flip(name: str, answer: Answer, cases: Iterable[Shipped], *, seen: bool) -> ErrorRate:
    """Count wrong verdicts on flips and turns."""
    verdicts = {}
    for case in cases:
        truth = operators.apply(case.pair.operator, case.image)
        verdicts[case.slug] = change_seen(case.image, answer(case.image, truth), case.pair).seen
    return _rate("exact", name, seen, verdicts)


def _rate(of: str, what: str, should: bool, verdicts: Mapping[str, bool | None]) -> ErrorRate:
    wrong = tuple(slug for slug, seen in verdicts.items() if seen is not should)
    seen = sum(seen is True for seen in verdicts.values())
    return ErrorRate(of, what, should, len(verdicts), seen, wrong)


def _blurred(image: Image.Image, radius: float) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(radius))


DRIFTS: dict[str, Drift] = {
    "nothing else": lambda image: image,
    "a fifth lighter": lambda image: lit(image, 1.2),
    "a fifth darker": lambda image: lit(image, 0.8),
    "warmer": lambda image: lit(image, offset=WARMTH),
    "colder": lambda image: lit(image, offset=(-25, 0, 25)),
    "40 levels greener": lambda image: lit(image, offset=(0, 40, 0)),
    "turned grey": lambda image: image.convert("L").convert("RGB"),
    "a wobble of 2 px": lambda image: wobbly(image, 2),
    "a wobble of 4 px": lambda image: wobbly(image, 4),
    "a finer wobble of 4 px": lambda image: wobbly(image, 4, smooth=16),
    "JPEG 85": lambda image: as_jpeg(image, 85),
    "JPEG 30": lambda image: as_jpeg(image, 30),
    "noise of 12 levels": lambda image: noisy(image, 12),
    "a blur of 3 px": lambda image: _blurred(image, 3),
    "2 % zoomed in": lambda image: moved(image, zoom=1.02),
    "2 % zoomed out": lambda image: moved(image, zoom=0.98),
    "shifted by 3 px": lambda image: moved(image, right=3, down=-2),
    "lighter, wobbly, JPEG 85": lambda image: as_jpeg(wobbly(lit(image, 1.12), 2), 85),
}
DAMAGES: dict[str, Drift] = {
    "nothing else": lambda image: image,
    "JPEG 20": lambda image: as_jpeg(image, 20),
    "a blur of 4 px": lambda image: _blurred(image, 4),
    "noise of 40 levels": lambda image: noisy(image, 40),
    "shifted by 8 px": lambda image: moved(image, right=8),
    "5 % zoomed in": lambda image: moved(image, zoom=1.05),
    "5 % zoomed out": lambda image: moved(image, zoom=0.95),
    "a fifth lighter": lambda image: lit(image, 1.2),
    "warmer": lambda image: lit(image, offset=WARMTH),
    "turned grey": lambda image: image.convert("L").convert("RGB"),
    "a wobble of 2 px": lambda image: wobbly(image, 2),
}


def _left_half(image: Image.Image, truth: Image.Image) -> Image.Image:
    answer = fit(image, truth.size).copy()
    answer.paste(truth.crop((0, 0, truth.width // 2, truth.height)))
    return answer


def _upper_half(image: Image.Image, truth: Image.Image) -> Image.Image:
    answer = fit(image, truth.size).copy()
    answer.paste(truth.crop((0, 0, truth.width, truth.height // 2)))
    return answer


FALSE_FLIPS: dict[str, Answer] = {
    "the image untouched": lambda image, _: image,
    "a double exposure, 55 to 45": lambda image, truth: Image.blend(
        fit(image, truth.size), truth, 0.55
    ),
    "only the left half": _left_half,
    "only the upper half": _upper_half,
    "a blank card": lambda _, truth: Image.new("RGB", truth.size, (90, 90, 90)),
}
