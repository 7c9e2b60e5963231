"""The runs that a race is against: scored run folders, or bundles such as a board offers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from evaluation.analysis.events import ChainResult
from evaluation.analysis.half_life import METHOD_VERSION, summary_and_values
from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.power import suite_cases, suite_design
from evaluation.analysis.survival import Floats
from evaluation.bundle import format as bundles
from evaluation.bundle.numbers import measured
from evaluation.cli.printing import CommandError
from evaluation.cli.run_folder import RunFolder, RunFolderError
from evaluation.cli.run_scores import read_scores
from evaluation.content.suites import Suite
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import in_order

#: Kept in the raced run's folder, so that it is played on without the others.
FILE = "rivals.json"
MOST = 1_000


@dataclass(frozen=True)
class Headline:
    """The metric that ranks go by, as it is run: only runs of the same are compared."""

    metric: str
    version: str
    weights_sha256: str
    method: str = METHOD_VERSION

    @classmethod
    def of(cls, scorer: Scorer) -> Self:
        about = scorer.provenance()["metrics"]
        name = next(iter(in_order(about)), "")
        if not name:
            raise CommandError("no metric can run here, so nothing can be raced")
        return cls(name, about[name]["version"], about[name]["weights_sha256"] or "")

    def check(self, where: Path, metrics: Mapping[str, Mapping[str, Any]], method: str) -> None:
        """CommandError where a run was scored otherwise."""
        own = metrics.get(self.metric, {})
        found = (own.get("version"), own.get("weights_sha256") or "", method)
        if found != (self.version, self.weights_sha256, self.method):
            raise CommandError(
                f"{where} was not scored by {self.metric} {self.version} and method {self.method}, "
                "as the raced run will be: score it again"
            )


@dataclass(frozen=True)
class Rivals:
    """By name, the usable trips of each case, in the suite's order."""

    headline: Headline
    suite: str  # its content hash
    usable_trips: Mapping[str, Sequence[float]]

    @classmethod
    def of(cls, paths: Iterable[Path], suite: Suite, headline: Headline) -> Self:
        """Those of whole runs of the same suite; CommandError says which is not one."""
        found: dict[str, Sequence[float]] = {}
        for path in paths:
            name, chains = (
                _bundled(path, suite, headline)
                if path.is_file()
                else _folder(path, suite, headline)
            )
            values = summary_and_values(chains, suite.trips, DEFAULT_LEVEL)[1]
            usable = values.aligned(suite_cases(suite)).tolist()
            if any(math.isnan(value) for value in usable):
                raise CommandError(
                    f"{path} lacks cases of {suite.slug}: only whole runs are ranked"
                )
            while name in found:
                name += " (again)"
            found[name] = usable
        if not 1 <= len(found) <= MOST:
            raise CommandError(f"a race is against 1 to {MOST} runs: name them with --against")
        if not suite_design(suite).enough:
            raise CommandError(
                f"{suite.slug} has too few pictures and pairs to tell models apart, so that no race "
                "on it can settle anything: play all of it"
            )
        return cls(headline, suite.content_hash, found)

    def keep(self, folder: RunFolder) -> None:
        folder.write_json(FILE, {"format": 1, **asdict(self)})

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """Those that the folder keeps; RunFolderError where they are not whole."""
        file = folder.path / FILE
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            headline = Headline(**{name: str(value) for name, value in data["headline"].items()})
            usable = {
                str(name): [float(value) for value in values]
                for name, values in data["usable_trips"].items()
            }
            suite = str(data["suite"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise RunFolderError(
                f"{file}: {error}; name the runs that the race is against with --against"
            ) from None
        whole = all(
            len(values) == len(folder.suite.cases) and all(math.isfinite(v) for v in values)
            for values in usable.values()
        )
        if suite != folder.suite.content_hash or not whole or not 1 <= len(usable) <= MOST:
            raise RunFolderError(f"{file} is not of the suite that {folder.path} plays")
        return cls(headline, suite, usable)

    @property
    def columns(self) -> Floats:
        return np.column_stack([np.asarray(values) for values in self.usable_trips.values()])


def _folder(path: Path, suite: Suite, headline: Headline) -> tuple[str, list[ChainResult]]:
    folder = RunFolder.open(path)
    _check_suite(path, folder.suite, suite)
    scores = read_scores(folder)
    if scores is None or not folder.complete:
        raise CommandError(
            f"{path} is not played to its end and scored: convergebench score {path}"
        )
    if folder.race_ended or not folder.arm.is_default:
        why = folder.race_ended or f"an arm of an experiment ({folder.arm})"
        raise CommandError(f"{path} is not ranked, so nobody is raced against it: {why}")
    headline.check(path, scores.provenance["metrics"], scores.method)
    return folder.name, scores.results(suite, headline.metric)


def _bundled(path: Path, suite: Suite, headline: Headline) -> tuple[str, list[ChainResult]]:
    with bundles.read(path) as bundle:
        run = bundle.document.run
        _check_suite(path, bundle.suite, suite)
        if run.race_stopped or not bundle.arm.is_default:
            raise CommandError(f"{path} is of a run that is not ranked: nobody is raced against it")
        headline.check(path, run.metrics, run.method_version)
        calibrations = {
            row.picture: row
            for row in bundle.document.calibrations
            if row.metric == headline.metric
        }
        try:
            found = measured(suite, headline.metric, calibrations, bundle.document.chains)
        except KeyError as error:
            raise CommandError(f"{path}: {error} is not a case of {suite.slug}") from None
        return bundle.document.model.name, [chain.result for _, chain in found or ()]


def _check_suite(path: Path, found: Suite, wanted: Suite) -> None:
    if found.content_hash != wanted.content_hash:
        raise CommandError(
            f"{path} is of the suite {found.slug} ({found.content_hash[:12]}), the race is on "
            f"{wanted.slug} ({wanted.content_hash[:12]})"
        )
