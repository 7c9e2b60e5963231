"""The benchmark as a library: an editor, a suite, and what comes of them.

from convergebench import evaluate

results = evaluate(my_model, "smoke", out="runs/mine")
print(results)
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from evaluation.cli.commands.editors import find_editor, own_editor
from evaluation.cli.commands.play import Terms, check_budget, new_player, open_run, play_on
from evaluation.cli.commands.report import reported
from evaluation.cli.commands.score import new_scorer, results_table, scored
from evaluation.cli.commands.suites import find_suite as suite
from evaluation.cli.hooks import Hook, Hooks, trip_row
from evaluation.cli.judge_options import ANSWERS, judge_of
from evaluation.cli.own_editors import as_editor, place_of
from evaluation.cli.report import Report
from evaluation.cli.results import MetricResult, run_results
from evaluation.cli.suite_parts import part_of
from evaluation.content.suites import Suite
from evaluation.editors import Answer, Editor, EditorError, Refused
from evaluation.errors import UserFacingError
from evaluation.images import Picture
from evaluation.play.run_folder import PlayedChain, RunFolder
from evaluation.play.run_scores import RunScores, read_scores
from evaluation.play.store import Paused

__all__ = [
    "Answer",
    "Editor",
    "EditorError",
    "FrameError",
    "Paused",
    "Picture",
    "Refused",
    "Results",
    "Suite",
    "evaluate",
    "suite",
]
FRAMES = ("pandas", "polars")


class FrameError(UserFacingError):
    """No package for data frames is installed."""


class Results:
    """A run that was played and scored; it lies in `folder`."""

    def __init__(self, folder: RunFolder, scores: RunScores, aside: Any = None) -> None:
        self.run, self.scores = folder, scores
        self._aside = aside  # a folder that lasts as long as these results

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """A run folder that was scored, here or by `convergebench score`."""
        run = RunFolder.open(Path(folder))
        scores = read_scores(run)
        if scores is None:
            raise UserFacingError(f"{folder} is not scored: convergebench score {folder}")
        return cls(run, scores)

    @property
    def folder(self) -> Path:
        return self.run.path

    @property
    def suite(self) -> Suite:
        return self.run.suite

    @cached_property
    def metrics(self) -> dict[str, MetricResult]:
        """The results by metric, the headline first; one that was not run is not there."""
        return run_results(self.suite, self.scores)

    @property
    def standing(self) -> MetricResult:
        """The result by the headline metric: `.summary`, `.bounds`, `.events`."""
        if not self.metrics:
            raise UserFacingError("no metric says anything of this run: the sources are one colour")
        return next(iter(self.metrics.values()))

    def curves(self) -> dict[str, tuple[float | None, ...]]:
        """Mean retention after 0..N trips, by metric."""
        return {name: result.summary.curve for name, result in self.metrics.items()}

    def chains(self) -> Iterator[dict[str, Any]]:
        """A row per chain: how it ended, after how many usable trips, and by what."""
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
        """A row per trip: distance and retention by every metric, and what was seen."""
        for slug, chain in self.scores.chains.items():
            kept = {name: self.scores.retention(chain, name) for name in self.scores.metrics}
            for index, trip in enumerate(chain.trips):
                row = self._case(slug) | {
                    "trip": index + 1,
                    "change_seen": trip.change_seen,
                    "reframed": trip.reframed,
                    "because": trip.because,
                }
                for name in self.scores.metrics:
                    distances, retention = chain.distances.get(name), kept[name]
                    row[name] = distances[index] if distances else None
                    row[f"{name}_retention"] = retention[index] if retention else None
                yield row

    def trips_frame(self, package: str | None = None) -> Any:
        """`trips()` as a data frame of pandas or polars, whichever is installed or named."""
        return _frame(self.trips(), package)

    def chains_frame(self, package: str | None = None) -> Any:
        """`chains()` as a data frame."""
        return _frame(self.chains(), package)

    def calls_frame(self, package: str | None = None) -> Any:
        """Every call to the editor, also those that failed, as a data frame."""
        return _frame(self.run.calls(), package)

    def save(self, folder: str | Path) -> Path:
        """Copies the run with its scores; `convergebench report` and `Results.open` take it."""
        target = Path(folder)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UserFacingError(f"{target} is there already; choose another folder")
        shutil.copytree(self.folder, target, dirs_exist_ok=True)
        return target

    def report(self, folder: str | Path | None = None) -> Path:
        """The report as one HTML page; in the run's folder unless another is named."""
        out = Path(folder) if folder else self.folder / "report"
        return Report(self.suite, [reported(self.run, self.scores)]).write(out)

    def __str__(self) -> str:
        return results_table(self.metrics)

    def __repr__(self) -> str:
        return f"<Results of {self.run.name} on {self.suite.slug}: {self.folder}>"

    def _case(self, slug: str) -> dict[str, Any]:
        chain = self.scores.chains[slug]
        pair = self.suite.pair_by_slug[chain.pair]
        return {
            "chain": slug,
            "picture": chain.picture,
            "pair": chain.pair,
            "kind": self.suite.picture_by_slug[chain.picture].kind,
            "category": pair.category,
            "repeat": chain.repeat,
        }


def evaluate(
    editor: str | Editor | Callable[..., Any],
    suite: str | Suite = "smoke",
    *,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    trips: int | None = None,
    cases: str | Iterable[str] | None = None,
    parallel: int | None = None,
    metrics: Iterable[str] | None = None,
    judge: str | Mapping[str, Any] | None = None,
    budget: float | None = None,
    price: float | None = None,
    max_edits: int | None = None,
    attempts: int = 5,
    secret: str | None = None,
    stop_after: int = 0,
    on_trip: Callable[[dict[str, Any]], Any] | None = None,
    log: str | Hook | Iterable[str | Hook] | None = None,
) -> Results:
    """Play a suite with an editor, score it, and return the results.

    `editor` is a name of `convergebench editors`, a place (my.module:MyEditor), an Editor,
    or a function of (image, prompt, seed) that returns a PIL image; `options` are for those
    that are made here. `suite` is a name, a file or a Suite; `trips` and `cases` (patterns
    of a case, picture or pair) take a part of it. With the same `out` an interrupted
    evaluation goes on; without, the run lasts as long as the results. A paid model is not
    asked about: give `budget` (USD) or `max_edits`, and Paused is raised when it is reached.
    With `stop_after` chains are scored while they are played, and stopped so many trips after
    their end is known (3 is a good number): fewer edits, the same half-life.
    `judge` is a vision-language model to be asked about the trips that people read: its name,
    or its settings (model, url, kind, key, usd, calls); the rest comes from JUDGE_... in the
    environment. `on_trip` is called after every trip that is played, with its chain, number,
    seconds and cost (from a thread of its own where `parallel` is more than one). `log` are
    hooks that are told all of it and the results: "wandb", "mlflow", or objects with `begin`,
    `on_trip` and `end`; one that fails is told no more, and the evaluation goes on.
    """
    hooks = Hooks.of(log)
    chosen, record = _chosen(editor, dict(options or {}))
    terms = Terms(parallel, attempts, budget, price, max_edits)
    check_budget(record, terms)
    part = part_of(_suite(suite), trips, cases)
    scorer = new_scorer(",".join(metrics) if metrics is not None else None)
    aside = None if out else tempfile.TemporaryDirectory(prefix="convergebench-")
    path = Path(out) if out else Path(aside.name if aside else "") / "run"
    run = open_run(path, part, record, secret, stop_after)

    def told(chain: PlayedChain) -> None:
        hooks.on_trip(chain)
        if on_trip:
            on_trip(trip_row(chain))

    results: Results | None = None
    try:
        with run.playing():
            player = new_player(run, chosen, record, terms)
            hooks.begin(run)
            play_on(player, record, on_trip=told)
        stated = {"model": judge} if isinstance(judge, str) else judge
        asked = judge_of(stated, run.path / ANSWERS) if stated else None
        scores = scored(run, scorer, judge=asked)
        results = Results(run, scores, aside)
    finally:
        hooks.end(results.metrics if results else None)
    return results


def _chosen(editor: Any, options: dict[str, Any]) -> tuple[Editor, dict[str, Any]]:
    if isinstance(editor, str):
        return find_editor(editor, options)
    return own_editor(as_editor(editor, options), place_of(editor), options)


def _suite(wanted: str | Suite) -> Suite:
    return wanted if isinstance(wanted, Suite) else suite(wanted)


def _frame(rows: Iterable[Mapping[str, Any]], package: str | None) -> Any:
    for name in (package,) if package else FRAMES:
        try:
            return importlib.import_module(name).DataFrame(list(rows))
        except ModuleNotFoundError:
            continue
    wanted = package or " or ".join(FRAMES)
    raise FrameError(
        f"data frames need {wanted}, which is not installed here: pip install {wanted.split()[0]}"
    )
