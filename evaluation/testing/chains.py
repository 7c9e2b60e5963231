"""Generated chains and runs for tests of the statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evaluation.analysis.events import Case, ChainResult
from evaluation.editors.base import Answer, EditContext
from evaluation.images import EncodedImage
from evaluation.play.plan import Step
from evaluation.play.round_trips import EditStep

Edit = Callable[..., Answer]
CATEGORIES = ("objects", "geometric", "replication")
KINDS = ("face", "object", "scene")
ORIGINS = ("photograph", "painting", "render", "generated")


def chain(*retention: float, **fields: Any) -> ChainResult:
    """Return a chain with these retentions; `fields` override the default image, pair and others."""
    place = {
        "image": "cat",
        "pair": "hat",
        "category": "objects",
        "kind": "face",
        "origin": "photograph",
    }
    return ChainResult(**{"repeat": 0, **place, **fields}, retention=retention)


def halving(time: float, trips: int = 20, **fields: Any) -> ChainResult:
    """Return a chain whose retention decays exponentially, to one half after `time` trips."""
    return chain(*(0.5 ** (np.arange(1, trips + 1) / time)).tolist(), **fields)


def made_up_cases(
    count: int, images: int, pairs: int, categories: int, seed: int = 0
) -> list[Case]:
    """Return random cases in which every image and every pair occurs."""
    random = np.random.default_rng(seed)
    order = random.permutation(pairs)
    places = {(n % images, int(order[n % pairs])) for n in range(max(images, pairs))}
    others = [(a, b) for a in range(images) for b in range(pairs) if (a, b) not in places]
    drawn = random.choice(len(others), count - len(places), replace=False)
    places.update(others[n] for n in drawn)
    return [
        Case(
            f"image-{a:03}",
            f"pair-{b:03}",
            f"category-{b % categories}",
            KINDS[a % 3],
            ORIGINS[a % 4],
        )
        for a, b in sorted(places)
    ]


def run_of(
    times: np.ndarray, *, trips: int = 20, repeats: int = 1, loss: float = 0.0, seed: int = 0
) -> list[ChainResult]:
    """Return a run in which every image has a case in each of three categories.

    `times` has the halving times (axes: image, category, repeat). `loss` is the share of chains
    that end early.
    """
    random = np.random.default_rng(seed)
    times = times.reshape(len(times), len(CATEGORIES), repeats)
    run = []
    for (image, column, repeat), time in np.ndenumerate(times):
        place = {
            "image": f"image-{image:03}",
            "pair": f"{CATEGORIES[column]}-{image // 3 % 8}",
            "category": CATEGORIES[column],
            "kind": KINDS[image % 3],
            "origin": ORIGINS[image % 4],
            "repeat": repeat,
        }
        whole = halving(time, trips, **place)
        if random.random() < loss:
            outcome = str(random.choice(["refused", "blank", "failed", "lost", "lost"]))
            kept = whole.retention[: random.integers(0, trips)]
            run.append(chain(*kept, outcome=outcome, **place))
        else:
            run.append(whole)
    return run


def spread_times(
    images: int,
    random: np.random.Generator,
    *,
    median: float = 8.0,
    image: float = 0.4,
    case: float = 0.4,
) -> np.ndarray:
    """Return log-normal halving times that differ by image and by case."""
    of_image = random.normal(0, image, (images, 1))
    of_case = random.normal(0, case, (images, len(CATEGORIES)))
    return median * np.exp(of_image + of_case)


def asking(edit: Edit) -> EditStep:
    """Make each step by one call of `edit`, without retries or a record of the calls."""

    def ask(image: EncodedImage, step: Step, context: EditContext) -> Answer:
        return edit(image, step.prompt, seed=step.seed, context=context)

    return ask
