"""A small experiment (a suite run in several ways) that is really played, with tiny images.

It has just enough images and pairs for an interval.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evaluation.content.suites import Case
from evaluation.content.suites import EditPair as CorePair
from leaderboard import jobs
from leaderboard.content.loading import store_suite
from leaderboard.experiments import plan as experiments
from leaderboard.models import EditingModel, EditPair, Experiment, ExperimentArm, Run, Suite
from leaderboard.testing import factories

PAIRS = 12
LONG = (
    "Please take the whole image as it is, every single part of it from one edge to the other, "
    "and do the following with it, carefully and without changing anything else. "
)
_WAYS = (factories.FLIP, factories.TURN, factories.REPLICA)


def worded_suite(trips: int = 2, pairs: int = PAIRS, size: int = 32) -> Suite:
    """Store a suite of as many images as pairs; the prompts have three other wordings."""
    core, images = factories.core_suite(pairs, (), trips=trips, size=size, slug="worded")
    made = tuple(_pair(number) for number in range(pairs))
    cases = tuple(Case(p.slug, pair.slug) for p, pair in zip(core.images, made, strict=True))
    suite = store_suite(replace(core, pairs=made, cases=cases), images)
    for pair in made:
        variants = [
            {"name": name, "forward": f"{before}{pair.forward}", "backward": before + pair.backward}
            for name, before in (("short", ""), ("long", LONG), ("colloquial", "Hey. "))
        ]
        variants[0] |= {"forward": pair.forward.rstrip("."), "backward": pair.backward.rstrip(".")}
        EditPair.objects.create(
            slug=pair.slug,
            title=pair.slug,
            category=pair.category,
            forward=pair.forward,
            backward=pair.backward,
            change=pair.change,
            operator=pair.operator,
            variants=variants,
        )
    return suite


def _pair(number: int) -> CorePair:
    way = _WAYS[number % len(_WAYS)]
    category = "geometry" if number % 2 else "objects"
    return replace(way, slug=f"{way.slug}-{number}", category=category)


def experiment(suite: Suite | None = None, **fields: Any) -> Experiment:
    """Create an experiment with plain, short and long wordings; its editor misreads long ones."""
    models = fields.pop("models", None) or [misreader()]
    arms = fields.pop("arms", None) or {
        "plain": {},
        "short": {"wording": "short"},
        "long": {"wording": "long"},
    }
    made = Experiment.objects.create(
        **{"slug": "wording", "title": "Does the wording matter?", "published": True} | fields,
        suite=suite or worded_suite(),
    )
    made.editing_models.set(models)
    for position, (name, settings) in enumerate(arms.items()):
        ExperimentArm.objects.create(experiment=made, position=position, name=name, **settings)
    return made


def misreader(slug: str = "misreader", **options: Any) -> EditingModel:
    return factories.editing_model(
        slug, "misreader", is_reference=True, options={"sigma": 4.0} | options
    )


def played(made: Experiment) -> Experiment:
    """Start, play and score all runs of the experiment; return it."""
    for run in experiments.start(made):
        jobs.play(run.pk)
        jobs.score(run.pk)
    made.refresh_from_db()
    return made


def runs(made: Experiment) -> dict[str, Run]:
    """Return the run of each arm by the only model."""
    return {arm.name: arm.runs.get() for arm in made.arms.all()}
