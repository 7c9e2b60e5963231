"""The study of Nano Banana 2 for restoration: its tables 2 to 5, and ours beside them."""

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

#: As the study calls them; the other three of its metrics come by score files, if at all.
FULL = ("psnr", "ssim", "lpips")
#: Blocks and treatments that Friedman's test needs at least.
FEWEST_CASES, FEWEST_ARMS = 2, 3
#: The scenes of the study, and our image for each.
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
#: Case and repeat → distance.
Distances = Mapping[tuple[str, int], float]


class Restored:
    """One run's first trips: their distances by metric, case and repeat."""

    def __init__(self, model: str, run: Json, suite: Suite, source: Source) -> None:
        self.model = model
        #: One of the study's prompts; the plain wording is its LF3.
        wording = run["arm"].get("wording", PLAIN)
        self.prompt = "LF3" if wording == PLAIN else wording.upper()
        self.cases: Mapping[str, Case] = {case.slug: case for case in suite.cases}
        distances: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
        for row in source.scores(run["id"]):
            if row["trip"] == "1" and row["distance"]:
                place = row["case"], int(row["repeat"])
                distances[row["metric"]][place] = float(row["distance"])
        self.distances: Mapping[str, Distances] = distances

    def shown(self, metric: str, cases: Iterable[str] | None = None) -> str:
        """Print the metric's own value of the mean distance over these cases."""
        wanted = set(self.cases if cases is None else cases)
        values = [d for (case, _), d in self.distances.get(metric, {}).items() if case in wanted]
        if not values or metric not in METRICS:
            return NOTHING
        shown = metric_class(metric)().shown(fmean(values))
        return NOTHING if shown is None else f"{shown:.3f}"

    def of_scene(self, slug: str) -> set[str]:
        return {name for name, case in self.cases.items() if case.image == slug}

    def of_degradation(self, name: str) -> set[str]:
        return {slug for slug, case in self.cases.items() if case.pair == f"restore-{name}"}


def restoration(
    facts: Json,
    suite: Suite,
    source: Source,
    runs: Sequence[tuple[str, Json]],
    arms: Sequence[tuple[str, Json]],
) -> list[Table]:
    """Methods, scenes and degradations, prompts with Friedman's test, reruns."""
    restored = [Restored(model, run, suite, source) for model, run in runs]
    prompts = [Restored(model, run, suite, source) for model, run in arms]
    return [
        _methods(facts, restored),
        _parts(facts, restored),
        *(_matrix(one) for one in restored),
        _prompts(facts, prompts),
        _friedman(prompts),
        _reruns(facts, prompts),
        _scenes(),
    ]


def _cells(values: Sequence[float | None]) -> list[str]:
    return [NOTHING if value is None else f"{value:.3f}" for value in values]


def _head(facts: Json) -> list[str]:
    return [name.upper() for name in facts["metrics"]]


def _ours(one: Restored, facts: Json, cases: Iterable[str] | None = None) -> list[str]:
    names = facts["metrics"]
    return [one.shown(name, cases) if name in FULL else formatting.NOT_RUN for name in names]


def _methods(facts: Json, restored: Sequence[Restored]) -> Table:
    lines = [[f"{name} (published)", *_cells(v)] for name, v in facts["methods"].items()]
    lines += [[f"{one.model} (here)", *_ours(one, facts)] for one in restored]
    return Table(
        "methods",
        "Over all scenes and degradations (their table 5)",
        ["Method", *_head(facts)],
        lines,
        note="Other images, and our degradations: compare methods within a half. “Do nothing” "
        "is what the degraded images themselves score.",
    )


def _parts(facts: Json, restored: Sequence[Restored]) -> Table:
    lines = []
    titles = {one.title: one.name for one in DEGRADATIONS.values()}
    stated = facts["parts"]
    for title in [*RESTORED, *titles]:
        if title in stated:
            lines.append([f"{title}: Nano Banana 2 (published)", *_cells(stated[title])])
        for one in restored:
            cases = (
                one.of_scene(RESTORED[title])
                if title in RESTORED
                else one.of_degradation(titles[title])
            )
            name = f"{title}: {one.model} (here)"
            lines.append([name, *_ours(one, facts, cases)])
    return Table(
        "parts", "By scene and by degradation (their table 4)", ["Part", *_head(facts)], lines
    )


def _matrix(one: Restored) -> Table:
    """Print scene by degradation by the headline metric, else by SSIM."""
    metric = HEADLINE if HEADLINE in one.distances else "ssim"
    head = [degradation.title for degradation in DEGRADATIONS.values()]
    lines = []
    for scene, slug in RESTORED.items():
        rows = one.of_scene(slug)
        cells = [one.shown(metric, rows & one.of_degradation(name)) for name in DEGRADATIONS]
        if rows:
            lines.append([scene, *cells])
    return Table(
        f"matrix-{re.sub('[^a-z0-9]+', '-', one.model.lower())}",
        f"{one.model}: {formatting.metric_label(metric)} by scene and degradation",
        ["Scene", *head],
        lines,
    )


def _prompts(facts: Json, arms: Sequence[Restored]) -> Table:
    lines = []
    for name, values in facts["prompts"].items():
        lines.append([f"{name}: Nano Banana 2 (published)", *_cells(values)])
        lines += [
            [f"{name}: {one.model} (here)", *_ours(one, facts)]
            for one in arms
            if one.prompt == name
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


def _friedman(arms: Sequence[Restored]) -> Table:
    """Test by each metric if prompts differ, over the cases that all of a model's arms have."""
    by_model: dict[str, list[Restored]] = defaultdict(list)
    for one in arms:
        by_model[one.model].append(one)
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
        note="Rank tests take cases for independent, though seven share an image: the intervals "
        "of the experiment's page decide, these do not.",
    )


def _reruns(facts: Json, arms: Sequence[Restored]) -> Table:
    """Test if reruns of the same prompt differ."""
    lines = []
    for name, stated in facts["reruns"].items():
        lines.append([f"{name}: statistic (published)", *_cells(stated["stat"][: len(FULL)])])
        lines.append([f"{name}: p (published)", *_cells(stated["p"][: len(FULL)])])
        for one in arms:
            if one.prompt == name:
                lines.append([f"{name}: p, {one.model} (here)", *_rerun(one)])
    return Table(
        "reruns",
        "Do reruns of one prompt differ? Friedman's test over three runs (their table 3)",
        ["Prompt", *(name.upper() for name in FULL)],
        lines,
    )


def _rerun(one: Restored) -> list[str]:
    cells = []
    for metric in FULL:
        by_repeat: dict[int, dict[str, float]] = defaultdict(dict)
        for (case, repeat), distance in one.distances.get(metric, {}).items():
            by_repeat[repeat][case] = distance
        test = _test(list(by_repeat.values()))
        cells.append(NOTHING if test is None else f"{test[1]:.3f}")
    return cells


def _by_case(one: Restored, metric: str) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for (case, _), distance in one.distances.get(metric, {}).items():
        values[case].append(distance)
    return {case: fmean(distances) for case, distances in values.items()}


def _test(treatments: Sequence[Mapping[str, float]]) -> tuple[float, float] | None:
    """Return Friedman's statistic and p over the shared cases, or None if these are too few."""
    import numpy as np
    from scipy.stats import friedmanchisquare

    shared = sorted(set.intersection(*(set(one) for one in treatments))) if treatments else []
    if len(shared) < FEWEST_CASES or len(treatments) < FEWEST_ARMS:
        return None
    columns = [[one[case] for case in shared] for one in treatments]
    if not np.ptp(columns, axis=0).any():
        return 0.0, 1.0  # the same in every case: no rank differs
    result = friedmanchisquare(*columns)
    return float(result.statistic), float(result.pvalue)


def _scenes() -> Table:
    return Table(
        "scenes",
        "Which image stands for which scene, and what each degradation does",
        ["There", "Here"],
        [
            *([scene, slug] for scene, slug in RESTORED.items()),
            *([one.title, one.words] for one in DEGRADATIONS.values()),
        ],
        note="No crowd ships: a group of people around a shuttle stands for it.",
    )
