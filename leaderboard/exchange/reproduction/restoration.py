"""The study of Nano Banana 2 for restoration: its tables 2 to 5, and ours beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from evaluation.content.catalog import PLAIN
from evaluation.content.degradations import DEGRADATIONS
from evaluation.content.suite_builder.shipped import RESTORED
from evaluation.metrics import HEADLINE, METRICS, metric_class
from leaderboard import formatting
from leaderboard.exchange.documents.blocks import Table
from leaderboard.exchange.reproduction.facts import Facts
from leaderboard.exchange.reproduction.needs import Need
from leaderboard.models import Run, Score, Suite
from leaderboard.models.runs import RunState

NOTHING = "–"
#: As the study calls them; the other three of its metrics come by score files, if at all.
FULL = ("psnr", "ssim", "lpips")
SCENES = {slug: scene for scene, slug in RESTORED.items()}
#: Blocks and treatments that Friedman's test needs at least.
FEWEST_CASES, FEWEST_ARMS = 2, 3
#: Case and repeat → distance.
Distances = Mapping[tuple[int, int], float]


class Restored:
    """One run's first returns: their distances by metric, case and repeat."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.cases = {case.pk: case for case in run.suite.cases.select_related("picture")}
        found: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
        rows = Score.objects.filter(trip__chain__run=run, trip__number=1, distance__isnull=False)
        for name, case, repeat, distance in rows.values_list(
            "metric__name", "trip__chain__case", "trip__chain__repeat", "distance"
        ):
            found[name][case, repeat] = distance
        self.distances: Mapping[str, Distances] = found

    def shown(self, metric: str, cases: Iterable[int] | None = None) -> str:
        """The metric's own value, of the mean distance over these cases."""
        wanted = set(self.cases if cases is None else cases)
        values = [d for (case, _), d in self.distances.get(metric, {}).items() if case in wanted]
        if not values or metric not in METRICS:
            return NOTHING
        shown = metric_class(metric)().shown(fmean(values))
        return NOTHING if shown is None else f"{shown:.3f}"

    def of_scene(self, slug: str) -> list[int]:
        return [pk for pk, case in self.cases.items() if case.picture.slug == slug]

    def of_degradation(self, name: str) -> list[int]:
        return [pk for pk, case in self.cases.items() if case.pair_slug == f"restore-{name}"]


def restoration(facts: Facts, found: Sequence[Need], suite: Suite) -> list[Table]:
    """Methods, scenes and degradations, prompts with Friedman's test, reruns."""
    restored = [Restored(need.run) for need in found if need.done and need.run]
    arms = [Restored(run) for run in _arms(suite, found)]
    tables = [_methods(facts, restored), _parts(facts, restored)]
    tables += [_matrix(one) for one in restored]
    return [*tables, _prompts(facts, arms), _friedman(facts, arms), _reruns(facts, arms), _scenes()]


def _arms(suite: Suite, found: Sequence[Need]) -> list[Run]:
    """Finished runs of experiments that play one of the twelve prompts."""
    runs = Run.objects.filter(
        suite=suite,
        state=RunState.FINISHED,
        editing_model__in=[need.model for need in found],
    ).exclude(arm_digest="")
    return sorted(runs.select_related("editing_model", "suite"), key=lambda run: run.pk)


def _prompt(run: Run) -> str:
    """Which of the study's prompts the run plays; the plain wording is its LF3."""
    wording = run.core_arm.wording
    return "LF3" if wording == PLAIN else wording.upper()


def _cells(values: Sequence[float | None]) -> list[str]:
    return [NOTHING if value is None else f"{value:.3f}" for value in values]


def _head(facts: Facts) -> list[str]:
    return [name.upper() for name in facts.stated["metrics"]]


def _ours(one: Restored, facts: Facts, cases: Iterable[int] | None = None) -> list[str]:
    asked = list(facts.stated["metrics"])
    return [one.shown(name, cases) if name in FULL else formatting.NOT_RUN for name in asked]


def _methods(facts: Facts, restored: Sequence[Restored]) -> Table:
    lines = [[f"{name} (published)", *_cells(v)] for name, v in facts.stated["methods"].items()]
    lines += [[f"{one.run.editing_model.name} (here)", *_ours(one, facts)] for one in restored]
    return Table(
        "methods",
        "Over all scenes and degradations (their table 5)",
        ["Method", *_head(facts)],
        lines,
        note="Other pictures, and degradations of ours: compare methods within a half. “Do nothing” "
        "is what the degraded pictures themselves score.",
    )


def _parts(facts: Facts, restored: Sequence[Restored]) -> Table:
    lines = []
    titles = {one.title: one.name for one in DEGRADATIONS.values()}
    stated = facts.stated["parts"]
    for title in [*RESTORED, *titles]:
        if title in stated:
            lines.append([f"{title}: Nano Banana 2 (published)", *_cells(stated[title])])
        for one in restored:
            cases = (
                one.of_scene(RESTORED[title])
                if title in RESTORED
                else one.of_degradation(titles[title])
            )
            name = f"{title}: {one.run.editing_model.name} (here)"
            lines.append([name, *_ours(one, facts, cases)])
    return Table(
        "parts", "By scene and by degradation (their table 4)", ["Part", *_head(facts)], lines
    )


def _matrix(one: Restored) -> Table:
    """Scene by degradation, what is kept of the picture by the headline, else by SSIM."""
    metric = HEADLINE if HEADLINE in one.distances else "ssim"
    head = [degradation.title for degradation in DEGRADATIONS.values()]
    lines = []
    for scene, slug in RESTORED.items():
        rows = set(one.of_scene(slug))
        cells = [one.shown(metric, rows & set(one.of_degradation(name))) for name in DEGRADATIONS]
        if rows:
            lines.append([scene, *cells])
    return Table(
        f"matrix-{one.run.editing_model.slug}",
        f"{one.run.editing_model.name}: {formatting.metric_label(metric)} by scene and degradation",
        ["Scene", *head],
        lines,
    )


def _prompts(facts: Facts, arms: Sequence[Restored]) -> Table:
    lines = []
    for name, values in facts.stated["prompts"].items():
        lines.append([f"{name}: Nano Banana 2 (published)", *_cells(values)])
        lines += [
            [f"{name}: {one.run.editing_model.name} (here)", *_ours(one, facts)]
            for one in arms
            if _prompt(one.run) == name
        ]
    return Table(
        "prompts",
        "By prompt (their table 2)",
        ["Prompt", *_head(facts)],
        lines,
        note=""
        if arms
        else "No prompt was played here yet: examples/experiments/restoration.yaml plays them.",
    )


def _friedman(facts: Facts, arms: Sequence[Restored]) -> Table:
    """Do the prompts differ? Over the cases that all of a model's arms have, by each metric."""
    by_model: dict[str, list[Restored]] = defaultdict(list)
    for one in arms:
        by_model[one.run.editing_model.name].append(one)
    lines = []
    for model, runs in by_model.items():
        tests = [_test([_by_case(one, metric) for one in runs]) for metric in FULL]
        for place, what in enumerate(("statistic", "p")):
            cells = [NOTHING if test is None else f"{test[place]:.3f}" for test in tests]
            lines.append([f"{model}, {len(runs)} prompts, {what}", *cells])
    return Table(
        "friedman",
        "Do the prompts differ? Friedman's test over cases",
        ["Model", *(name.upper() for name in FULL)],
        lines,
        note="Rank tests take cases for independent, though seven share a picture: the intervals "
        "of the experiment's page decide, these do not.",
    )


def _reruns(facts: Facts, arms: Sequence[Restored]) -> Table:
    """Do reruns of the same prompt differ?"""
    lines = []
    for name, stated in facts.stated["reruns"].items():
        lines.append([f"{name}: statistic (published)", *_cells(stated["stat"][: len(FULL)])])
        lines.append([f"{name}: p (published)", *_cells(stated["p"][: len(FULL)])])
        for one in arms:
            if _prompt(one.run) == name:
                lines.append([f"{name}: p, {one.run.editing_model.name} (here)", *_rerun(one)])
    return Table(
        "reruns",
        "Do reruns of one prompt differ? Friedman's test over three runs (their table 3)",
        ["Prompt", *(name.upper() for name in FULL)],
        lines,
    )


def _rerun(one: Restored) -> list[str]:
    cells = []
    for metric in FULL:
        by_repeat: dict[int, dict[int, float]] = defaultdict(dict)
        for (case, repeat), distance in one.distances.get(metric, {}).items():
            by_repeat[repeat][case] = distance
        test = _test(list(by_repeat.values()))
        cells.append(NOTHING if test is None else f"{test[1]:.3f}")
    return cells


def _by_case(one: Restored, metric: str) -> dict[int, float]:
    found: dict[int, list[float]] = defaultdict(list)
    for (case, _), distance in one.distances.get(metric, {}).items():
        found[case].append(distance)
    return {case: fmean(values) for case, values in found.items()}


def _test(treatments: Sequence[Mapping[int, float]]) -> tuple[float, float] | None:
    """Friedman's statistic and p over the cases that all have; None where that says nothing."""
    import numpy as np
    from scipy.stats import friedmanchisquare

    shared = sorted(set.intersection(*(set(one) for one in treatments))) if treatments else []
    if len(shared) < FEWEST_CASES or len(treatments) < FEWEST_ARMS:
        return None
    columns = [[one[case] for case in shared] for one in treatments]
    if not np.ptp(columns, axis=0).any():
        return 0.0, 1.0  # the same in every case: no rank differs
    found = friedmanchisquare(*columns)
    return float(found.statistic), float(found.pvalue)


def _scenes() -> Table:
    return Table(
        "scenes",
        "Which picture stands for which scene, and what each degradation does",
        ["There", "Here"],
        [
            *([scene, slug] for scene, slug in RESTORED.items()),
            *([one.title, one.words] for one in DEGRADATIONS.values()),
        ],
        note="No crowd ships: a group of people around a shuttle stands for it.",
    )
