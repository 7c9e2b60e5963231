"""Compare tables 2 to 5 of the study of Nano Banana 2 for restoration with our results."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from evaluation.content.catalog import PLAIN
from evaluation.content.operators import DEGRADATIONS
from evaluation.content.suites import Case, Suite
from evaluation.metrics import HEADLINE, METRICS, metric_class
from leaderboard import formatting
from tools.papers.documents import NOTHING, Table
from tools.papers.source import Json, Source

#: The study's metrics that run here; its three other metrics need score files.
FULL = ("psnr", "ssim", "lpips")
#: The smallest numbers of cases and of arms (an experiment's runs) for Friedman's test.
FEWEST_CASES, FEWEST_ARMS = 2, 3
#: The study's scenes, and our image for each.
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
#: Distances by case and repeat.
Distances = Mapping[tuple[str, int], float]


class RestorationRun:
    """The distances of a run's first trips, by metric, case and repeat."""

    def __init__(self, model: str, run: Json, suite: Suite, source: Source) -> None:
        self.model = model
        #: The study's name of the prompt; the plain wording is its LF3.
        wording = run["arm"].get("wording", PLAIN)
        self.prompt = "LF3" if wording == PLAIN else wording.upper()
        self.cases: Mapping[str, Case] = {case.slug: case for case in suite.cases}
        distances: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
        for row in source.scores(run["id"]):
            if row["trip"] == "1" and row["distance"]:
                key = row["case"], int(row["repeat"])
                distances[row["metric"]][key] = float(row["distance"])
        self.distances: Mapping[str, Distances] = distances

    def shown(self, metric: str, cases: Iterable[str] | None = None) -> str:
        """Format the mean distance over these cases, in the metric's usual unit."""
        chosen = set(self.cases if cases is None else cases)
        values = [d for (case, _), d in self.distances.get(metric, {}).items() if case in chosen]
        if not values or metric not in METRICS:
            return NOTHING
        shown = metric_class(metric)().shown(fmean(values))
        return NOTHING if shown is None else f"{shown:.3f}"

    def cases_of_scene(self, slug: str) -> set[str]:
        return {name for name, case in self.cases.items() if case.image == slug}

    def cases_of_degradation(self, name: str) -> set[str]:
        return {slug for slug, case in self.cases.items() if case.pair == f"restore-{name}"}


def restoration(
    facts: Json,
    suite: Suite,
    source: Source,
    runs: Sequence[tuple[str, Json]],
    arms: Sequence[tuple[str, Json]],
) -> list[Table]:
    """Return all tables: methods, scenes and degradations, prompts, reruns."""
    restored = [RestorationRun(model, run, suite, source) for model, run in runs]
    prompts = [RestorationRun(model, run, suite, source) for model, run in arms]
    return [
        _methods(facts, restored),
        _parts(facts, restored),
        *(_matrix(run) for run in restored),
        _prompts(facts, prompts),
        _friedman(prompts),
        _reruns(facts, prompts),
        _scenes(),
    ]


def _cells(values: Sequence[float | None]) -> list[str]:
    return [NOTHING if value is None else f"{value:.3f}" for value in values]


def _head(facts: Json) -> list[str]:
    return [name.upper() for name in facts["metrics"]]


def _ours(run: RestorationRun, facts: Json, cases: Iterable[str] | None = None) -> list[str]:
    names = facts["metrics"]
    return [run.shown(name, cases) if name in FULL else formatting.NOT_RUN for name in names]


def _methods(facts: Json, restored: Sequence[RestorationRun]) -> Table:
    lines = [[f"{name} (published)", *_cells(v)] for name, v in facts["methods"].items()]
    lines += [[f"{run.model} (here)", *_ours(run, facts)] for run in restored]
    return Table(
        "methods",
        "Over all scenes and degradations (their table 5)",
        ["Method", *_head(facts)],
        lines,
        note="Images and degradations differ: compare published methods with each other, and "
        "methods here with each other. “Do nothing” is the score of the degraded images.",
    )


def _parts(facts: Json, restored: Sequence[RestorationRun]) -> Table:
    lines = []
    titles = {degradation.title: degradation.name for degradation in DEGRADATIONS.values()}
    published = facts["parts"]
    for title in [*RESTORED, *titles]:
        if title in published:
            lines.append([f"{title}: Nano Banana 2 (published)", *_cells(published[title])])
        for run in restored:
            cases = (
                run.cases_of_scene(RESTORED[title])
                if title in RESTORED
                else run.cases_of_degradation(titles[title])
            )
            name = f"{title}: {run.model} (here)"
            lines.append([name, *_ours(run, facts, cases)])
    return Table(
        "parts", "By scene and by degradation (their table 4)", ["Part", *_head(facts)], lines
    )


def _matrix(run: RestorationRun) -> Table:
    """Show scores by scene and degradation: of the headline metric if it was run, else of SSIM."""
    metric = HEADLINE if HEADLINE in run.distances else "ssim"
    head = [degradation.title for degradation in DEGRADATIONS.values()]
    lines = []
    for scene, slug in RESTORED.items():
        rows = run.cases_of_scene(slug)
        cells = [run.shown(metric, rows & run.cases_of_degradation(name)) for name in DEGRADATIONS]
        if rows:
            lines.append([scene, *cells])
    return Table(
        f"matrix-{re.sub('[^a-z0-9]+', '-', run.model.lower())}",
        f"{run.model}: {formatting.metric_label(metric)} by scene and degradation",
        ["Scene", *head],
        lines,
    )


def _prompts(facts: Json, arms: Sequence[RestorationRun]) -> Table:
    lines = []
    for name, values in facts["prompts"].items():
        lines.append([f"{name}: Nano Banana 2 (published)", *_cells(values)])
        lines += [
            [f"{name}: {run.model} (here)", *_ours(run, facts)]
            for run in arms
            if run.prompt == name
        ]
    return Table(
        "prompts",
        "By prompt (their table 2)",
        ["Prompt", *_head(facts)],
        lines,
        note=""
        if arms
        else "No prompt was tested here yet: start examples/experiments/restoration.yaml.",
    )


def _friedman(arms: Sequence[RestorationRun]) -> Table:
    """Test by each metric if prompts differ, on the cases shared by all arms of a model."""
    by_model: dict[str, list[RestorationRun]] = defaultdict(list)
    for run in arms:
        by_model[run.model].append(run)
    lines = []
    for model, runs in by_model.items():
        tests = [_test([_by_case(run, metric) for run in runs]) for metric in FULL]
        for place, what in enumerate(("statistic", "p")):
            cells = [NOTHING if test is None else f"{test[place]:.3f}" for test in tests]
            lines.append([f"{model}, {len(runs)} prompts, {what}", *cells])
    return Table(
        "friedman",
        "Do the prompts differ? Friedman's test over cases",
        ["Model", *(name.upper() for name in FULL)],
        lines,
        note="The test assumes independent cases, but seven cases share each image. Use the "
        "intervals on the experiment's page instead.",
    )


def _reruns(facts: Json, arms: Sequence[RestorationRun]) -> Table:
    """Test if reruns of the same prompt differ."""
    lines = []
    for name, published in facts["reruns"].items():
        lines.append([f"{name}: statistic (published)", *_cells(published["stat"][: len(FULL)])])
        lines.append([f"{name}: p (published)", *_cells(published["p"][: len(FULL)])])
        for run in arms:
            if run.prompt == name:
                lines.append([f"{name}: p, {run.model} (here)", *_rerun(run)])
    return Table(
        "reruns",
        "Do reruns of one prompt differ? Friedman's test over three runs (their table 3)",
        ["Prompt", *(name.upper() for name in FULL)],
        lines,
    )


def _rerun(run: RestorationRun) -> list[str]:
    cells = []
    for metric in FULL:
        by_repeat: dict[int, dict[str, float]] = defaultdict(dict)
        for (case, repeat), distance in run.distances.get(metric, {}).items():
            by_repeat[repeat][case] = distance
        test = _test(list(by_repeat.values()))
        cells.append(NOTHING if test is None else f"{test[1]:.3f}")
    return cells


def _by_case(run: RestorationRun, metric: str) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for (case, _), distance in run.distances.get(metric, {}).items():
        values[case].append(distance)
    return {case: fmean(distances) for case, distances in values.items()}


def _test(treatments: Sequence[Mapping[str, float]]) -> tuple[float, float] | None:
    """Return Friedman's statistic and p over the shared cases; None if too few cases are shared."""
    import numpy as np
    from scipy.stats import friedmanchisquare

    shared = sorted(set.intersection(*(set(values) for values in treatments))) if treatments else []
    if len(shared) < FEWEST_CASES or len(treatments) < FEWEST_ARMS:
        return None
    columns = [[values[case] for case in shared] for values in treatments]
    if not np.ptp(columns, axis=0).any():
        return 0.0, 1.0  # all treatments have equal ranks
    result = friedmanchisquare(*columns)
    return float(result.statistic), float(result.pvalue)


def _scenes() -> Table:
    return Table(
        "scenes",
        "Our image for each scene, and our definition of each degradation",
        ["Study", "Here"],
        [
            *([scene, slug] for scene, slug in RESTORED.items()),
            *([degradation.title, degradation.words] for degradation in DEGRADATIONS.values()),
        ],
        note="There is no image of a crowd here, so a group of people around a shuttle replaces it.",
    )
