"""Small real rows for tests: a frozen suite with images, and models that play it."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from evaluation.content.shapes import Step
from evaluation.content.sources import pixel_sha256
from evaluation.content.suites import Case, EditPair, SuiteImage
from evaluation.content.suites import Suite as CoreSuite
from evaluation.images import EncodedImage
from leaderboard.content.loading import store_suite
from leaderboard.models import EditingModel, Suite

FLIP = EditPair(
    slug="flip",
    category="geometry",
    forward="Mirror the image horizontally, left to right.",
    backward="Mirror the image horizontally, left to right.",
    change="exact",
    reversibility="exact",
    operator="flip_horizontal",
)
TURN = EditPair(
    slug="upside-down",
    category="geometry",
    forward="Rotate the image by 180 degrees.",
    backward="Rotate the image by 180 degrees.",
    change="exact",
    reversibility="exact",
    operator="rotate_180",
)
REPLICA = EditPair(
    slug="replica",
    category="replication",
    forward="Produce an exact replica of the provided image, with no alterations.",
    backward="Produce an exact replica of the provided image, with no alterations.",
    change="none",
)

# Pairs with chain shapes (trips of more than two steps): flips and turns, which all reference
# editors make exactly.
ACROSS = "Mirror the image horizontally, left to right."
DOWN = "Mirror the image vertically, top to bottom."
QUARTER = "Rotate the image by 90 degrees clockwise."


def _flips(slug: str, shape: str, first: str, last: str, against: str = "") -> EditPair:
    across = Step("A", ACROSS, "exact", "flip_horizontal")
    down = Step("B", DOWN, "exact", "flip_vertical")
    return EditPair(
        slug=slug,
        category="geometry",
        forward=first,
        backward=last,
        change="exact",
        reversibility="exact",
        operator="flip_horizontal",
        shape=shape,
        steps=(across, down, Step("a", ACROSS), Step("b", DOWN)),
        against=against,
    )


IN_TURN = _flips("in-turn", "A a = B b", ACROSS, DOWN)
NESTED = _flips("nested", "A B b a", ACROSS, ACROSS, "in-turn")
OTHER_ORDER = _flips("other-order", "B A a b", DOWN, DOWN, "nested")
QUARTERS = EditPair(
    slug="quarters",
    category="geometry",
    forward=QUARTER,
    backward=QUARTER,
    change="exact",
    reversibility="exact",
    operator="rotate_90",
    shape="F F F F",
    steps=(Step("F", QUARTER, "exact", "rotate_90"),),
)
SHAPES = (IN_TURN, NESTED, OTHER_ORDER, QUARTERS)


def drawn_image(number: int = 0, size: int = 64) -> Image.Image:
    """Return a different image for each number: soft colours with structure, nowhere flat."""
    random = np.random.default_rng(number)
    coarse = random.integers(0, 256, (size // 8, size // 8, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC)
    fine = random.integers(-12, 13, (size, size, 3))
    return Image.fromarray(np.clip(np.asarray(image) + fine, 0, 255).astype(np.uint8))


def core_suite(
    images: int = 2,
    pairs: tuple[EditPair, ...] = (FLIP, TURN),
    *,
    trips: int = 3,
    repeats: int = 1,
    size: int = 64,
    slug: str = "tiny",
) -> tuple[CoreSuite, dict[str, EncodedImage]]:
    """Return a suite of every image with every pair, and its images by slug."""
    drawn = {f"image-{number}": drawn_image(number, size) for number in range(images)}
    suite = CoreSuite(
        slug=slug,
        version=1,
        title=slug.capitalize(),
        trips=trips,
        size=size,
        repeats=repeats,
        images=tuple(
            SuiteImage(
                slug=name,
                sha256=pixel_sha256(image),
                width=image.width,
                height=image.height,
                kind="scene",
                origin=f"file:{name}",
                title=name,
                author="A test",
                licence="CC0-1.0",
                attribution="A test",
            )
            for name, image in drawn.items()
        ),
        pairs=pairs,
        cases=tuple(Case(name, pair.slug) for name in drawn for pair in pairs),
    )
    return suite, {name: EncodedImage.from_image(image) for name, image in drawn.items()}


def tiny_suite(images: int = 2, pairs: tuple[EditPair, ...] = (FLIP, TURN), **sizes: Any) -> Suite:
    """Store `core_suite` as a frozen suite."""
    return store_suite(*core_suite(images, pairs, **sizes))


def editing_model(slug: str = "noise", editor: str = "noise", **fields: Any) -> EditingModel:
    """Create a model; by default a reference editor that adds noise."""
    return EditingModel.objects.create(slug=slug, name=slug.capitalize(), editor=editor, **fields)
