"""The suites that ship, as drafts, and their files in fixtures/suites/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from evaluation.content import catalog
from evaluation.content.suite_builder.building import build
from evaluation.content.suite_builder.drafts import Draft, Stratum, candidate
from evaluation.content.suites import Suite, SuiteError


def _even(**kinds: Mapping[str, int]) -> dict[Stratum, int]:
    """Shares by category, then kind."""
    return {(kind, cat): n for cat, shares in kinds.items() for kind, n in shares.items()}


#: Cases in which the yardsticks' own drawing is too faint for "change seen" to see.
TOO_FAINT = (
    "bearded-man-before-leaves--clothes-red",
    "camera--bicycle",
    "charpentier-family--umbrella",
    "green-car--umbrella",
    "hedgehog--caption-thank-you",
    "hiker--bird",
    "jam-jars--jar-label",
    "manuel-osorio--party-hat",
    "two-shuttles--umbrella",
    "van-der-neer-sunset--balloon",
    "woman-in-a-wheat-field--necklace",
    "woman-with-a-bob--necklace",
    "yi-gilbo--earrings",
)


#: Cases in which a drawing seen from the front lies beside a head that is turned.
TURNED_HEADS = (
    "calvin-coolidge--beard",
    "man-in-orange-light--headphones",
    "man-in-orange-light--mask",
    "maria-portinari--mask",
    "tommaso-portinari--beard",
    "ulysses-grant--mask",
)
#: Taken for their size: only there do they show what smaller pictures do not.
FOR_THEIR_SIZE = ("dragonfly", "nuthatch", "stone-table-at-sunset")
#: The scenes of the study of Nano Banana 2 for restoration, and what stands for each here.
RESTORED = {
    "Aerial view": "two-shuttles",
    "Animal fur": "raccoon",
    "Architecture": "white-tower",
    "Cartoon or comic": "little-dragon",
    "Large face": "woman-with-freckles",
    "Medium face": "astronaut",
    "Small face": "woman-crossing-the-street",
    "Crowd": "discovery-at-sunrise",
    "Text": "chalkboard",
    "Hands and feet": "woman-with-painted-cheeks",
    "Trees and leaves": "forest-stream",
    "Hand-drawn": "flower-book",
    "Fabric texture": "man-in-a-checked-shirt",
}


SHIPPED = (
    Draft(
        slug="smoke",
        version=2,
        importance=10,
        title="Smoke",
        description="A self-test, not a ranking: fourteen small pictures and fourteen edits that "
        "show in minutes whether an installation plays, scores and orders the yardsticks as it "
        "should. Compare models on Standard.",
        trips=8,
        size=256,
        picture_slugs=(
            *("astronaut", "frowning-man", "woman-with-buns", "smiling-woman", "woman-with-a-bob"),
            *("coffee", "fruit", "toys", "desk", "mug", "books", "bottles"),
            *("china", "living-room", "beach", "desert", "park-bench", "bakery"),
        ),
        pair_slugs=(
            *("glasses", "crown", "necklace", "cap"),
            *("red-ball", "chair", "clock", "bird", "book", "apple"),
            *("negative", "swap-red-blue", "black-and-white"),
            *("flip-horizontal", "flip-vertical", "rotate-180"),
            *("caption-thank-you", "mug-evening", "caption-summer"),
        ),
        shares=_even(
            accessories={"face": 3},
            objects={"object": 1, "scene": 2},
            colour={"face": 1, "object": 1, "scene": 1},
            geometry={"face": 1, "object": 1, "scene": 1},
            text={"object": 1, "scene": 1},
        ),
    ),
    Draft(
        slug="lite",
        version=2,
        importance=20,
        stop_after=3,
        title="Lite",
        description="A first ranking for little money: forty cases of eight categories, a third "
        "of them played twice to see how much chance there is in a result.",
        trips=10,
        size=512,
        without_pictures=FOR_THEIR_SIZE,
        without_subkinds=("texture",),
        smallest_side=256,
        repeated=13,
        shares=_even(
            accessories={"face": 5},
            appearance={"face": 5},
            objects={"face": 1, "object": 2, "scene": 2},
            colour={"face": 1, "object": 2, "scene": 2},
            light={"face": 1, "object": 1, "scene": 3},
            style={"face": 2, "object": 2, "scene": 1},
            text={"face": 1, "object": 3, "scene": 1},
            geometry={"face": 1, "object": 2, "scene": 2},
        ),
    ),
    Draft(
        slug="standard",
        importance=30,
        stop_after=3,
        title="Standard",
        description="The suite of the board: people, things and places, photographed, painted, "
        "rendered and generated, with eight categories of edits, each of the same weight.",
        trips=20,
        size=1024,
        without_pictures=FOR_THEIR_SIZE,
        without_subkinds=("texture",),
        smallest_side=384,
        without_cases=(*TOO_FAINT, *TURNED_HEADS),
        shares=_even(
            accessories={"face": 38},
            appearance={"face": 38},
            objects={"face": 4, "object": 16, "scene": 18},
            colour={"face": 12, "object": 13, "scene": 13},
            light={"face": 8, "object": 10, "scene": 19},
            style={"face": 13, "object": 12, "scene": 12},
            text={"face": 8, "object": 16, "scene": 13},
            geometry={"face": 12, "object": 13, "scene": 12},
        ),
    ),
    Draft(
        slug="portraits",
        importance=15,
        stop_after=3,
        title="Portraits",
        description="People only, since that is what people edit, and where a small change "
        "makes another person.",
        trips=10,
        size=1024,
        needs=("person",),
        kinds=("face",),
        smallest_side=384,
        without_cases=(*TOO_FAINT, *TURNED_HEADS),
        shares=_even(
            accessories={"face": 24},
            appearance={"face": 24},
            objects={"face": 8},
            colour={"face": 12},
            light={"face": 8},
            style={"face": 8},
            text={"face": 4},
            geometry={"face": 12},
        ),
    ),
    Draft(
        slug="replication",
        version=2,
        importance=5,
        title="Replication",
        description="“Produce an exact replica”, a hundred times over, on twelve textures and "
        "scenes. One pair alone: it shows wear, and ranks nobody. A model that returns its input "
        "is right here.",
        trips=50,
        size=1024,
        cases=12,
        categories=("replication",),
        narrow=True,
        picture_slugs=(
            *("brick", "grass", "gravel", "tissue", "retina", "hubble-deep-field"),
            *("chelsea", "china", "flower", "kitchen-shelf", "cupcakes", "garden-path"),
        ),
    ),
    Draft(
        slug="shapes",
        importance=3,
        title="Chain shapes",
        description="Trips of more than two edits: four quarter turns, two things that come and go "
        "in either order, three things one by one, a session of three turns. Few pictures and "
        "pairs: it shows how models fail there, and ranks nobody.",
        trips=4,
        size=256,
        narrow=True,
        shapes=True,
        picture_slugs=(
            *("astronaut", "snowman", "camera"),
            *("globe", "robot", "concert-poster", "beach"),
        ),
        shares=_even(
            objects={"object": 6, "scene": 5},
            text={"object": 2, "scene": 2},
            geometry={"face": 2, "scene": 1},
        ),
    ),
    Draft(
        slug="restoration",
        importance=2,
        title="Restoration",
        description="Thirteen scenes, each degraded by us in seven ways; the model restores them. "
        "The scenes and degradations are those of the study of Nano Banana 2 for restoration, the "
        "pictures and the parameters ours: it states none. One pair for each degradation is too "
        "few for intervals: it ranks nobody.",
        trips=1,
        size=1024,
        cases=91,
        categories=("restoration",),
        narrow=True,
        picture_slugs=tuple(RESTORED.values()),
    ),
    Draft(
        slug="hires",
        importance=4,
        title="High resolution",
        description="The largest pictures that ship: five photographs of 3840 pixels (4K) and two "
        "of 2400 and 2560 (2K). It shows whether wear depends on size; seven pictures are too few "
        "to rank by.",
        trips=5,
        size=3136,
        smallest_side=1400,
        without_subkinds=("texture",),
        narrow=True,
        must_pictures=(*FOR_THEIR_SIZE, "dandelions", "man-with-glasses-outdoors"),
        shares=_even(
            accessories={"face": 1},
            appearance={"face": 2},
            objects={"face": 1, "scene": 1},
            colour={"face": 1, "object": 1, "scene": 1},
            light={"face": 1, "object": 2},
            style={"face": 1, "object": 1, "scene": 1},
            text={"face": 1, "object": 1},
            geometry={"face": 1, "object": 2, "scene": 1},
            replication={"face": 1, "object": 1, "scene": 1},
        ),
    ),
)


def shipped(draft: Draft) -> Suite:
    """A shipped suite, built from the active content of the catalog."""
    sources = [
        s for s in catalog.source_images() if s.status == "active" and draft.takes_picture(s)
    ]
    active = [pair.pair for pair in catalog.edit_pairs() if pair.status == "active"]
    return build(draft, (candidate(source, draft.size) for source in sources), active)


def suite_path(suite: Suite) -> Path:
    return catalog.folder() / "suites" / f"{suite.key}.json"


def write(suite: Suite, overwrite: bool = False) -> Path:
    """Write the suite's file; a frozen version that would change is refused."""
    path = suite_path(suite)
    if path.is_file() and not overwrite and Suite.read(path).content_hash != suite.content_hash:
        raise SuiteError(
            f"{path.name} is frozen and would change; give the draft a new version, or say "
            "--overwrite while nobody has played it"
        )
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(suite.to_dict(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path
