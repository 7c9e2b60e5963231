"""`convergebench experiment`: play a suite in several ways, and compare them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from evaluation.analysis import experiment_words as words
from evaluation.analysis.experiments import ExperimentNumbers, experiment_numbers
from evaluation.arms import Arm
from evaluation.cli.commands.report import reported_run
from evaluation.cli.editors import ChosenEditor, find_editor
from evaluation.cli.playing import (
    PlayedFolder,
    PlayOptions,
    add_limits,
    confirm_cost,
    estimate_remaining,
    find_suite,
    new_player,
    open_run,
    play_options,
    play_run,
    raise_pause,
    settings,
)
from evaluation.cli.printing import CommandError, Output, echo, echo_json, note, table
from evaluation.cli.report import Report
from evaluation.cli.results import conclusive_chains
from evaluation.cli.scoring import add_metrics, new_scorer, update_scores
from evaluation.content.suites import Suite
from evaluation.estimate import Estimate, duration
from evaluation.experiment_file import ExperimentFile, catalogue_variants
from evaluation.metrics import in_order
from evaluation.play.run_folder import RunFolder, write_json
from evaluation.play.run_scores import RunScores

HELP = "play a suite in several ways and measure the effect of each"
DESCRIPTION = """\
Plays every arm (way to play the suite) of an experiment with every model, each into
its own run folder (OUT/MODEL/ARM). Scores the runs, and writes OUT/experiment.json and
one page for each model: the effect of each arm on the usable trips with its interval,
Friedman's test and its post-hoc test, the categories with the largest effects, and the
variation between reruns. The estimated cost and time are printed first. Stop the command
at any time: the same command continues. docs/experiments.md lists the settings of an arm."""
EPILOG = """\
examples:
  convergebench experiment wording.yaml --estimate
  convergebench experiment wording.yaml --out runs/wording --budget 40"""
FORMAT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="the experiment")
    parser.add_argument(
        "--out", type=Path, help="folder of the runs (default: the experiment's slug)"
    )
    parser.add_argument("--estimate", action="store_true", help="print the estimate; play nothing")
    add_limits(parser)
    add_metrics(parser)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


@dataclass(frozen=True)
class ArmRun:
    """One arm played with one model."""

    name: str
    chosen: ChosenEditor
    options: PlayOptions
    folder: RunFolder

    @property
    def arm(self) -> Arm:
        return self.options.arm


class EstimateOutput(Output):
    """Output of `experiment --estimate --json`."""

    schema_name = "experiment-estimate"
    edits: int
    usd: float | None = Field(description="None if a price is unknown.")
    seconds: float
    stop_after: int


class ExperimentModel(BaseModel):
    """The results of one model."""

    model: str
    name: str
    arms: dict[str, dict[str, Any]] = Field(description="The run and settings of each arm.")
    metrics: dict[str, dict[str, Any]] = Field(description="Effects, ranks and reruns by metric.")
    finding: str
    page: str


class ExperimentOutput(Output):
    """Output of `experiment --json`, equal to experiment.json: the effect of each arm."""

    schema_name = "experiment"
    format: int = FORMAT
    title: str
    question: str
    suite: dict[str, Any]
    models: list[ExperimentModel]


def run(args: argparse.Namespace) -> int:
    experiment = ExperimentFile.read(args.file)
    suite = find_suite(experiment.suite, experiment.trips, experiment.cases, experiment.limit)
    out = args.out or Path(experiment.slug)
    models = _runs(experiment, suite, play_options(args), out, create=not args.estimate)
    total = _estimate(models)
    if args.estimate:
        if args.json:
            echo_json(EstimateOutput(**vars(total)))
        return 0
    everything = [run for runs in models.values() for run in runs]
    if not args.yes and not all(run.chosen.is_free for run in everything):
        confirm_cost(total)
    raise_pause(_play(everything))
    results = _results(experiment, suite, models, args.metrics, out)
    if args.json:
        echo_json(results)
        return 0
    for model in results.models:
        _print_model(model, out)
    return 0


def _runs(
    experiment: ExperimentFile, suite: Suite, options: PlayOptions, out: Path, *, create: bool
) -> dict[str, list[ArmRun]]:
    """Return every arm of every model, all checked before anything is paid for."""
    variants = catalogue_variants()
    arms = {name: arm.resolved(suite.pairs, variants) for name, arm in experiment.arms.items()}
    models = [find_editor(model, {}) for model in experiment.models]
    for chosen in models:
        options.price_of(chosen)
        for name, arm in arms.items():
            if unable := arm.unable(chosen.editor):
                raise CommandError(f"{chosen.name} cannot play the arm {name}: {'; '.join(unable)}")
    runs: dict[str, list[ArmRun]] = {}
    for chosen in models:
        for name, arm in arms.items():
            path, played_as = out / chosen.slug / name, replace(options, arm=arm)
            folder = (
                open_run(path, suite, chosen, played_as)
                if create or (path / "run.json").is_file()
                else RunFolder.planned(path, suite, **settings(chosen, played_as))
            )
            runs.setdefault(chosen.slug, []).append(ArmRun(name, chosen, played_as, folder))
    return runs


def _estimate(models: Mapping[str, Sequence[ArmRun]]) -> Estimate:
    """Estimate the cost and time of all runs, and print them arm by arm."""
    rows, parts = [], []
    for slug, runs in models.items():
        for arm_run in runs:
            expected = estimate_remaining(
                new_player(arm_run.folder, arm_run.chosen, arm_run.options), arm_run.chosen
            )
            parts.append(expected)
            money = "not known" if expected.usd is None else f"${expected.usd:,.2f}"
            time = duration(expected.seconds) if expected.edits else "played"
            rows.append([slug, arm_run.name, str(arm_run.arm), f"{expected.edits:,}", money, time])
    note(table(["model", "arm", "how it is played", "edits", "cost", "time"], rows))
    costs = [part.usd for part in parts]
    usd = None if None in costs else sum(cost or 0.0 for cost in costs)
    edits, seconds = sum(part.edits for part in parts), sum(part.seconds for part in parts)
    total = Estimate(edits, usd, seconds, max(part.stop_after for part in parts))
    note(f"total: {total}")
    return total


def _play(runs: Sequence[ArmRun]) -> list[PlayedFolder]:
    """Play one arm after another, all from one budget; stop at the first that pauses."""
    played: list[PlayedFolder] = []
    for arm_run in runs:
        spent = sum(done.spent for done in played)
        calls = sum(len(done.folder.calls()) for done in played)
        budget, max_edits = arm_run.options.budget, arm_run.options.max_edits
        remaining = replace(
            arm_run.options,
            budget=None if budget is None else budget - spent,
            max_edits=None if max_edits is None else max_edits - calls,
        )
        labelled = replace(arm_run.chosen, name=f"{arm_run.chosen.name}, {arm_run.name}")
        played.append(play_run(arm_run.folder, labelled, remaining))
        if played[-1].pause:
            break
    return played


def _results(
    experiment: ExperimentFile,
    suite: Suite,
    models: Mapping[str, Sequence[ArmRun]],
    metrics: str | None,
    out: Path,
) -> ExperimentOutput:
    """Score the runs, compare the arms, and write pages and experiment.json."""
    scorer = new_scorer(metrics)
    model_results = []
    for slug, runs in models.items():
        scores = {arm_run.name: update_scores(arm_run.folder, scorer) for arm_run in runs}
        by_metric = compare_arms(suite, scores)
        if not by_metric:
            raise CommandError(f"no metric could be computed for every arm of {slug}")
        numbers = {name: compared.to_dict() for name, compared in by_metric.items()}
        page = _page(experiment, suite, runs, scores, numbers, out / slug / "report")
        model_results.append(
            ExperimentModel(
                model=slug,
                name=runs[0].chosen.name,
                arms={
                    arm_run.name: {
                        "run": str(arm_run.folder.path),
                        "settings": arm_run.arm.to_dict(),
                        "in_words": str(arm_run.arm),
                    }
                    for arm_run in runs
                },
                metrics=numbers,
                finding=words.finding(next(iter(numbers.values()))),
                page=str(page),
            )
        )
    results = ExperimentOutput(
        title=experiment.title,
        question=experiment.question,
        suite={"slug": suite.slug, "version": suite.version, "hash": suite.content_hash},
        models=model_results,
    )
    write_json(out / "experiment.json", results.model_dump())
    return results


def compare_arms(suite: Suite, arms: Mapping[str, RunScores]) -> dict[str, ExperimentNumbers]:
    """Compare the arms by every metric that all of them have, the headline metric first."""
    shared = set.intersection(*(set(scores.metrics) for scores in arms.values()))
    numbers = {}
    for metric in in_order(shared):
        chains = {name: conclusive_chains(suite, scores, metric) for name, scores in arms.items()}
        if all(chains.values()):
            numbers[metric] = experiment_numbers(chains, suite.trips)
    return numbers


def _page(
    experiment: ExperimentFile,
    suite: Suite,
    runs: Sequence[ArmRun],
    scores: Mapping[str, RunScores],
    numbers: Mapping[str, Any],
    folder: Path,
) -> Path:
    shown = [replace(reported_run(run.folder, scores[run.name]), name=run.name) for run in runs]
    about = {
        "title": f"{experiment.title} {runs[0].chosen.name}",
        "question": experiment.question,
        "numbers": next(iter(numbers.values())),
        "by_metric": numbers,
        "arms": {run.name: str(run.arm) for run in runs},
        "words": words,
    }
    return Report(suite, shown, about).write(folder)


def _print_model(model: ExperimentModel, out: Path) -> None:
    numbers = next(iter(model.metrics.values()))
    echo(f"\n{model.name}: {model.finding}")
    rows = [
        [
            effect["arm"],
            f"{effect['usable_trips']:.2f}",
            words.signed(effect["difference"], 2),
            "-"
            if effect["low"] is None
            else f"{words.signed(effect['low'], 2)} to {words.signed(effect['high'], 2)}",
            "yes" if effect["sure"] else "",
        ]
        for effect in numbers["effects"]
    ]
    echo(table(["arm", "usable trips", "effect", "95 % interval", "sure"], rows))
    echo(f"{words.rank_words(numbers['ranks'])} {words.pair_words(numbers['ranks'])}".rstrip())
    echo(words.rerun_words(numbers["reruns"]))
    echo(f"{model.page}, {out / 'experiment.json'}")
