"""`convergebench experiment`: the same suite played in several ways, and what that changes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evaluation.analysis import experiment_words as words
from evaluation.analysis.experiments import ExperimentNumbers, experiment_numbers
from evaluation.arms import Arm
from evaluation.cli.commands.editors import find_editor
from evaluation.cli.commands.play import (
    Played,
    Terms,
    add_terms,
    ask_first,
    check_budget,
    expected_of,
    new_player,
    open_run,
    pause_if_any,
    play_on,
)
from evaluation.cli.commands.report import reported
from evaluation.cli.commands.score import add_metrics, new_scorer, scored
from evaluation.cli.commands.suites import find_suite
from evaluation.cli.printing import CommandError, note, say, say_json, table
from evaluation.cli.report import Report
from evaluation.cli.results import told
from evaluation.cli.suite_parts import part_of
from evaluation.content.suites import Suite
from evaluation.editors import Editor
from evaluation.estimate import Estimate, duration
from evaluation.experiment_file import ExperimentFile, worded
from evaluation.metrics import in_order
from evaluation.play.run_folder import RunFolder, write_json
from evaluation.play.run_scores import RunScores
from evaluation.play.store import Paused

HELP = "play a suite in several ways, and see what each of them changes"
DESCRIPTION = """\
Plays every arm of an experiment by every model, each into a run folder of its own
(OUT/MODEL/ARM), scores them, and writes OUT/experiment.json and one page for each
model: the effect of each arm on the usable trips with its interval, Friedman's test
with its post-hoc, which categories mind, and how much is luck. What it takes is told
first. Stop it where you like: the same command goes on. docs/experiments.md says what
an arm can set."""
EPILOG = """\
examples:
  convergebench experiment wording.yaml --estimate
  convergebench experiment wording.yaml --out runs/wording --budget 40"""
FORMAT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="the experiment")
    parser.add_argument("--out", type=Path, help="folder of its runs (the experiment's slug)")
    parser.add_argument(
        "--estimate", action="store_true", help="only tell what it takes; play nothing"
    )
    add_terms(parser)
    add_metrics(parser)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


@dataclass
class ArmRun:
    """One arm played by one model."""

    name: str
    arm: Arm
    editor: Editor
    record: dict[str, Any]
    folder: RunFolder


def run(args: argparse.Namespace) -> int:
    experiment = ExperimentFile.read(args.file)
    suite = part_of(
        find_suite(experiment.suite), experiment.trips, experiment.cases, experiment.limit
    )
    terms = Terms(args.parallel, args.attempts, args.budget, args.price, args.max_edits)
    out = args.out or Path(experiment.slug)
    models = _runs(experiment, suite, terms, out, create=not args.estimate)
    whole = _estimate(models, terms)
    if args.estimate:
        if args.json:
            say_json("experiment-estimate", vars(whole))
        return 0
    everything = [run for runs in models.values() for run in runs]
    ask_first(whole, {"free": all(run.record["free"] for run in everything)}, args)
    pause_if_any(_play(everything, terms))
    results = _results(experiment, suite, models, args.metrics, out)
    if args.json:
        say_json("experiment", results)
        return 0
    for model in results["models"]:
        _tell(model, out)
    return 0


def _runs(
    experiment: ExperimentFile, suite: Suite, terms: Terms, out: Path, *, create: bool
) -> dict[str, list[ArmRun]]:
    """Every arm of every model, all checked before anything is paid for."""
    pairs = worded(suite.pairs)
    arms = {name: arm.settled(pairs) for name, arm in experiment.arms.items()}
    chosen = [find_editor(model, {}) for model in experiment.models]
    for editor, record in chosen:
        check_budget(record, terms)
        for name, arm in arms.items():
            if unable := arm.unable(editor):
                raise CommandError(
                    f"{record['name']} cannot play the arm {name}: {'; '.join(unable)}"
                )
    found: dict[str, list[ArmRun]] = {}
    for editor, record in chosen:
        runs = found.setdefault(record["slug"], [])
        for name, arm in arms.items():
            path = out / record["slug"] / name
            folder = (
                open_run(path, suite, record, None, arm=arm)
                if create or (path / "run.json").is_file()
                else RunFolder(path, {"editor": record["editor"], "arm": arm.to_dict()}, suite)
            )
            runs.append(ArmRun(name, arm, editor, record, folder))
    return found


def _estimate(models: Mapping[str, Sequence[ArmRun]], terms: Terms) -> Estimate:
    """What all of it takes, told arm by arm."""
    rows, parts = [], []
    for slug, runs in models.items():
        for one in runs:
            player = new_player(one.folder, one.editor, one.record, terms)
            expected = expected_of(player, one.record)
            parts.append(expected)
            money = "not known" if expected.usd is None else f"${expected.usd:,.2f}"
            time = duration(expected.seconds) if expected.edits else "played"
            rows.append([slug, one.name, str(one.arm), f"{expected.edits:,}", money, time])
    note(table(["model", "arm", "how it is played", "edits", "cost", "time"], rows))
    known = [part.usd for part in parts]
    usd = None if None in known else sum(part or 0.0 for part in known)
    whole = Estimate(sum(p.edits for p in parts), usd, sum(p.seconds for p in parts))
    note(f"in all: {whole}")
    return whole


def _play(runs: Sequence[ArmRun], terms: Terms) -> list[Played]:
    """Play one arm after another, all from one budget; stops at the first that pauses."""
    played: list[Played] = []
    for one in runs:
        spent = sum(done.spent for done in played)
        calls = sum(len(done.folder.calls()) for done in played)
        left = replace(
            terms,
            budget=None if terms.budget is None else terms.budget - spent,
            max_edits=None if terms.max_edits is None else terms.max_edits - calls,
        )
        with one.folder.playing():
            player = new_player(one.folder, one.editor, one.record, left)
            paused = ""
            try:
                play_on(player, one.record | {"name": f"{one.record['name']}, {one.name}"})
            except Paused as pause:
                paused = str(pause)
        played.append(Played(one.folder, player.store.spent, paused))
        if paused:
            break
    return played


def _results(
    experiment: ExperimentFile,
    suite: Suite,
    models: Mapping[str, Sequence[ArmRun]],
    metrics: str | None,
    out: Path,
) -> dict[str, Any]:
    """Score, compute and write; what was written."""
    scorer = new_scorer(metrics)
    models_told = []
    for slug, runs in models.items():
        scores = {one.name: scored(one.folder, scorer) for one in runs}
        by_metric = numbers_by_metric(suite, scores)
        if not by_metric:
            raise CommandError(f"no metric says anything of every arm of {slug}")
        numbers = {name: found.to_dict() for name, found in by_metric.items()}
        page = _page(experiment, suite, runs, scores, numbers, out / slug / "report")
        models_told.append(
            {
                "model": slug,
                "name": runs[0].record["name"],
                "arms": {
                    one.name: {
                        "run": str(one.folder.path),
                        "settings": one.arm.to_dict(),
                        "in_words": str(one.arm),
                    }
                    for one in runs
                },
                "metrics": numbers,
                "finding": words.finding(next(iter(numbers.values()))),
                "page": str(page),
            }
        )
    results = {
        "format": FORMAT,
        "title": experiment.title,
        "question": experiment.question,
        "suite": {"slug": suite.slug, "version": suite.version, "hash": suite.content_hash},
        "models": models_told,
    }
    write_json(out / "experiment.json", results)
    return results


def numbers_by_metric(suite: Suite, arms: Mapping[str, RunScores]) -> dict[str, ExperimentNumbers]:
    """What the arms say by every metric that all of them have, the headline first."""
    shared = set.intersection(*(set(scores.metrics) for scores in arms.values()))
    found = {}
    for metric in in_order(shared):
        chains = {name: told(suite, scores, metric) for name, scores in arms.items()}
        if all(chains.values()):
            found[metric] = experiment_numbers(chains, suite.trips)
    return found


def _page(
    experiment: ExperimentFile,
    suite: Suite,
    runs: Sequence[ArmRun],
    scores: Mapping[str, RunScores],
    numbers: Mapping[str, Any],
    folder: Path,
) -> Path:
    shown = [replace(reported(one.folder, scores[one.name]), name=one.name) for one in runs]
    about = {
        "title": f"{experiment.title} {runs[0].record['name']}",
        "question": experiment.question,
        "numbers": next(iter(numbers.values())),
        "by_metric": numbers,
        "arms": {one.name: str(one.arm) for one in runs},
        "words": words,
    }
    return Report(suite, shown, about).write(folder)


def _tell(model: Mapping[str, Any], out: Path) -> None:
    numbers = next(iter(model["metrics"].values()))
    say(f"\n{model['name']}: {model['finding']}")
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
    say(table(["arm", "usable trips", "effect", "95 % interval", "sure"], rows))
    say(f"{words.rank_words(numbers['ranks'])} {words.pair_words(numbers['ranks'])}".rstrip())
    say(words.rerun_words(numbers["reruns"]))
    say(f"{model['page']}, {out / 'experiment.json'}")
