"""The benchmark as a library. For example:

from convergebench import evaluate

results = evaluate(my_model, "smoke", out="runs/mine")
print(results)
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from evaluation.analysis.events import Case
from evaluation.cli import results as metric_results
from evaluation.cli.commands.report import reported_run
from evaluation.cli.editors import ChosenEditor, find_editor, own_editor
from evaluation.cli.hooks import Hook, Hooks, TripFunction
from evaluation.cli.playing import PlayOptions, find_suite, open_run, play_run, raise_pause
from evaluation.cli.report import Report
from evaluation.cli.results import MetricResult, results_table, run_results
from evaluation.cli.scoring import ANSWERS, judge_from_settings, new_scorer, update_scores
from evaluation.content.suites import Suite
from evaluation.editors import Answer, Editor, EditorError, Fault, Refused
from evaluation.errors import UserFacingError
from evaluation.images import EncodedImage
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores, read_scores
from evaluation.play.store import Paused

__all__ = [
    "Answer",
    "Editor",
    "EditorError",
    "EncodedImage",
    "Fault",
    "FrameError",
    "Paused",
    "PlayOptions",
    "Refused",
    "Results",
    "ScoreOptions",
    "Suite",
    "evaluate",
    "suite",
]
FRAMES = ("pandas", "polars")
suite = find_suite


class FrameError(UserFacingError):
    """Raised if no package for data frames is installed."""


class Results:
    """A played and scored run, stored in `folder`."""

    def __init__(self, folder: RunFolder, scores: RunScores, temporary: Any = None) -> None:
        self.run, self.scores = folder, scores
        self._temporary = temporary  # the folder is deleted with these results

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a scored run folder, also one that the shell wrote. Raises UserFacingError."""
        run = RunFolder.open(Path(folder))
        scores = read_scores(run)
        if scores is None:
            raise UserFacingError(f"{folder} is not scored yet: run convergebench score {folder}")
        return cls(run, scores)

    @property
    def folder(self) -> Path:
        return self.run.path

    @property
    def suite(self) -> Suite:
        return self.run.suite

    @cached_property
    def metrics(self) -> metric_results.Results:
        """The results by metric, the headline metric first."""
        return run_results(self.suite, self.scores)

    @property
    def standing(self) -> MetricResult:
        """The result of the headline metric: `.summary`, `.bounds`, `.events`."""
        if not self.metrics:
            raise UserFacingError(
                "no metric can be computed for this run: its source images are a single colour"
            )
        return next(iter(self.metrics.values()))

    def curves(self) -> dict[str, tuple[float | None, ...]]:
        """Return the mean retention after 0..N trips, by metric."""
        return {name: result.summary.curve for name, result in self.metrics.items()}

    def chains(self) -> Iterator[dict[str, Any]]:
        """Yield a row per chain: its outcome, usable trips and cause."""
        events = self.standing.events
        for slug, chain in self.scores.chains.items():
            event = events.get(slug)
            yield self._case(slug) | {
                "outcome": chain.outcome,
                "reason": self.run.chains[slug].reason,
                "trips": len(chain.trips),
                "usable_trips": event.time if event else None,
                "cause": event.cause if event else None,
                "signs": len(chain.signs),
            }

    def trips(self) -> Iterator[dict[str, Any]]:
        """Yield a row per trip: distance and retention by every metric, and verdicts."""
        for slug, chain in self.scores.chains.items():
            by_metric = {name: self.scores.retention(chain, name) for name in self.scores.metrics}
            for index, trip in enumerate(chain.trips):
                row = self._case(slug) | {
                    "trip": index + 1,
                    "change_seen": trip.change_seen,
                    "reframed": trip.reframed,
                    "because": trip.because,
                }
                for name in self.scores.metrics:
                    distances, retention = chain.distances.get(name), by_metric[name]
                    row[name] = distances[index] if distances else None
                    row[f"{name}_retention"] = retention[index] if retention else None
                yield row

    def trips_frame(self, package: str | None = None) -> Any:
        """Return `trips()` as a data frame.

        `package` is "pandas" or "polars"; by default the first that is installed.
        """
        return _frame(self.trips(), package)

    def chains_frame(self, package: str | None = None) -> Any:
        """Return `chains()` as a data frame."""
        return _frame(self.chains(), package)

    def calls_frame(self, package: str | None = None) -> Any:
        """Return all calls to the editor, including failed calls, as a data frame."""
        return _frame((call.model_dump() for call in self.run.calls()), package)

    def save(self, folder: str | Path) -> Path:
        """Copy the run folder with its scores, for instance to read it with `Results.open`."""
        target = Path(folder)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UserFacingError(f"{target} already exists; choose another folder")
        shutil.copytree(self.folder, target, dirs_exist_ok=True)
        return target

    def report(self, folder: str | Path | None = None) -> Path:
        """Write the report as one HTML page, by default into the run's folder."""
        out = Path(folder) if folder else self.folder / "report"
        return Report(self.suite, [reported_run(self.run, self.scores)]).write(out)

    def __str__(self) -> str:
        return results_table(self.metrics)

    def __repr__(self) -> str:
        return f"<Results of {self.run.name} on {self.suite.slug}: {self.folder}>"

    def _case(self, slug: str) -> dict[str, Any]:
        chain = self.scores.chains[slug]
        case = Case.of(self.suite, chain.image, chain.pair)
        return {"chain": slug, **case._asdict(), "repeat": chain.repeat}


@dataclass(frozen=True)
class ScoreOptions:
    """Settings of scoring.

    `metrics` are names; None: all metrics that can run here. `judge` is a vision-language model
    that judges the trips shown to people: the name of the model, or settings (model, url, kind,
    key, usd, calls). Settings that are not given come from the environment variables JUDGE_...
    """

    metrics: Iterable[str] | None = None
    judge: str | Mapping[str, Any] | None = None


def evaluate(
    editor: str | Editor | Callable[..., Any],
    suite: str | Suite = "smoke",
    *,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    play: PlayOptions | None = None,
    score: ScoreOptions | None = None,
    log: str | Hook | TripFunction | Iterable[str | Hook | TripFunction] | None = None,
) -> Results:
    """Play a suite with an editor, score it, and return the results. Raises Paused.

    `editor` is a name from `convergebench list editors`, an import path (my.module:MyEditor), an
    Editor, or a function of (image, prompt, seed) that returns a PIL image. `options` are for an
    editor given by name or path. `suite` is a name, a file or a Suite; `suite("smoke", trips=2)`
    selects a part of a suite. A second call with the same `out` continues an interrupted
    evaluation; without `out` the run is deleted with its results. Paid models are played without
    confirmation: give a budget in `play`.

    `log` gives hooks, which follow the run: "wandb", "mlflow", objects with `begin`, `on_trip` and
    `end`, or functions. A function is called after every trip with the trip's chain, number,
    seconds and cost, from several threads if chains are played in parallel. A hook that fails is
    removed.
    """
    play, score = play or PlayOptions(), score or ScoreOptions()
    hooks = Hooks.load(log)
    chosen = _chosen(editor, dict(options or {}))
    play.price_of(chosen)
    found_suite = suite if isinstance(suite, Suite) else find_suite(suite)
    scorer = new_scorer(None if score.metrics is None else ",".join(score.metrics))
    temporary = None if out else tempfile.TemporaryDirectory(prefix="convergebench-")
    path = Path(out) if out else Path(temporary.name if temporary else "") / "run"
    run = open_run(path, found_suite, chosen, play)
    results: Results | None = None
    try:
        played = play_run(run, chosen, play, hooks=hooks)
        raise_pause([played])
        settings = {"model": score.judge} if isinstance(score.judge, str) else score.judge
        judge = judge_from_settings(settings, run.path / ANSWERS) if settings else None
        results = Results(run, update_scores(run, scorer, judge=judge), temporary)
    finally:
        hooks.end(results.metrics if results else None)
    return results


def _chosen(editor: Any, options: dict[str, Any]) -> ChosenEditor:
    return find_editor(editor, options) if isinstance(editor, str) else own_editor(editor, options)


def _frame(rows: Iterable[Mapping[str, Any]], package: str | None) -> Any:
    for name in (package,) if package else FRAMES:
        try:
            return importlib.import_module(name).DataFrame(list(rows))
        except ModuleNotFoundError:
            continue
    needed = package or " or ".join(FRAMES)
    raise FrameError(
        f"data frames need {needed}, which is not installed here: pip install {needed.split()[0]}"
    )
