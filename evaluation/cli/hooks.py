"""Report a run to wandb, MLflow or your own hook while it is played.

A hook is called when a run begins, after every trip, and at the end with the results. A hook that
fails is removed with a message: a failing logger must not end a paid run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from evaluation.cli.printing import note
from evaluation.cli.results import MetricResult
from evaluation.errors import UserFacingError
from evaluation.play.run_folder import PlayedChain, RunFolder

#: The maximum length of a parameter in MLflow, in characters.
MAX_PARAMETER = 500


class HookError(UserFacingError):
    """A hook that is unknown or not installed."""


class Hook(Protocol):
    """An observer of a run. Several threads may call it, but never two at once."""

    def begin(self, about: Mapping[str, Any]) -> None:
        """Begin a run, given its name, editor, options and suite as plain data."""

    def on_trip(self, trip: Mapping[str, Any]) -> None:
        """Record a played trip: chain, image, pair, trip, seconds and cost."""

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        """End the run with its results by metric, the headline metric first; None if not scored."""


#: Called after every trip that is played.
TripFunction = Callable[[Mapping[str, Any]], Any]


class Hooks:
    """The hooks of a run; a hook that fails is removed."""

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = list(hooks)
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls, hooks: str | Hook | TripFunction | Iterable[str | Hook | TripFunction] | None
    ) -> Hooks:
        """Return hooks by name ("wandb,mlflow"), object or function. Raises HookError."""
        if hooks is None:
            return cls()
        if isinstance(hooks, str):
            hooks = [name.strip() for name in hooks.split(",") if name.strip()]
        elif not isinstance(hooks, Iterable):
            hooks = [hooks]
        return cls([_hook(hook) for hook in hooks])

    def begin(self, folder: RunFolder) -> None:
        if self._hooks:
            about = _about(folder)
            self._each(lambda hook: hook.begin(about))

    def on_trip(self, chain: PlayedChain) -> None:
        if self._hooks:
            trip = _trip_row(chain)
            self._each(lambda hook: hook.on_trip(trip))

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        self._each(lambda hook: hook.end(results))

    def _each(self, call: Callable[[Hook], None]) -> None:
        with self._lock:
            for hook in list(self._hooks):
                try:
                    call(hook)
                # User code runs here and may raise anything.
                except Exception as error:
                    self._hooks.remove(hook)
                    name = type(hook).__name__
                    note(f"hook {name} failed and was removed: {type(error).__name__}: {error}")


def _trip_row(chain: PlayedChain) -> dict[str, Any]:
    """Return the last trip of a chain as plain data."""
    steps = chain.trips[-1]
    costs = [edit.cost for edit in steps if edit.cost is not None]
    return {
        "chain": chain.slug,
        "image": chain.image,
        "pair": chain.pair,
        "trip": steps[-1].number,
        "seconds": sum(edit.seconds for edit in steps),
        "cost": sum(costs) if costs else None,
    }


def flat_results(results: Mapping[str, MetricResult] | None) -> dict[str, float]:
    """Return the results as numbers by flat names, such as overall/usable_trips.

    Leaves out unknown numbers, such as a half-life beyond the suite's trips.
    """
    values: dict[str, float | None] = {}
    for name, result in (results or {}).items():
        summary, bounds = result.summary, result.bounds
        values[f"{name}/usable_trips"] = summary.usable_trips
        values[f"{name}/half_life"] = summary.half_life
        values[f"{name}/auc"] = summary.auc
        for bound, interval in (
            ("usable_trips", bounds.usable_trips),
            ("half_life", bounds.half_life),
        ):
            values[f"{name}/{bound}_low"] = interval.low if interval else None
            values[f"{name}/{bound}_high"] = interval.high if interval else None
    if results:
        first = next(iter(results.values())).summary
        values["change_seen"], values["edits_made"] = first.change_seen, first.edits_made
    return {name: value for name, value in values.items() if value is not None}


class WandbHook:
    """A hook that logs to Weights & Biases, configured by WANDB_PROJECT, WANDB_MODE, …"""

    def __init__(self) -> None:
        import wandb

        self.wandb, self.run = wandb, None
        self.played = 0

    def begin(self, about: Mapping[str, Any]) -> None:
        project = os.environ.get("WANDB_PROJECT") or "convergebench"
        name = f"{about['name']} on {about['suite']}"
        self.run = self.wandb.init(project=project, name=name, config=dict(about), reinit=True)

    def on_trip(self, trip: Mapping[str, Any]) -> None:
        if self.run is not None:
            self.played += 1
            values = {f"trip/{name}": value for name, value in trip.items() if value is not None}
            self.run.log({**values, "played": self.played})

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        if self.run is None:
            return
        self.run.summary.update(flat_results(results))
        for name, result in (results or {}).items():
            rows = [[n, q] for n, q in enumerate(result.summary.curve) if q is not None]
            table = self.wandb.Table(data=rows, columns=["trips", "kept"])
            self.run.log({f"{name}/curve": table})
        self.run.finish()
        self.run = None


class MlflowHook:
    """A hook that logs to MLflow, configured by MLFLOW_TRACKING_URI, …"""

    def __init__(self) -> None:
        import mlflow

        self.mlflow, self.run_id = mlflow, ""
        self.played = 0

    def begin(self, about: Mapping[str, Any]) -> None:
        if not os.environ.get("MLFLOW_EXPERIMENT_NAME"):
            self.mlflow.set_experiment("convergebench")
        name = f"{about['name']} on {about['suite']}"
        # Trips come from several threads, but MLflow's "active run" belongs to one thread.
        self.run_id = self.mlflow.start_run(run_name=name).info.run_id
        parameters = {
            key: (value if isinstance(value, str) else json.dumps(value, default=str))
            for key, value in about.items()
        }
        self.mlflow.log_params({key: text[:MAX_PARAMETER] for key, text in parameters.items()})

    def on_trip(self, trip: Mapping[str, Any]) -> None:
        self.played += 1
        values = {
            f"trip/{name}": float(value)
            for name, value in trip.items()
            if isinstance(value, int | float)
        }
        self.mlflow.log_metrics(values, step=self.played, run_id=self.run_id)

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        self.mlflow.log_metrics(flat_results(results), run_id=self.run_id)
        for name, result in (results or {}).items():
            for trips, mean in enumerate(result.summary.curve):
                if mean is not None:
                    self.mlflow.log_metric(f"{name}/kept", mean, step=trips, run_id=self.run_id)
        self.mlflow.end_run()


#: The hooks that `--log` can name, by their package.
HOOKS: dict[str, Callable[[], Hook]] = {"wandb": WandbHook, "mlflow": MlflowHook}


@dataclass
class FunctionHook:
    """A hook that calls a function after every trip."""

    on_trip: TripFunction

    def begin(self, about: Mapping[str, Any]) -> None:
        """Do nothing."""

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        """Do nothing."""


def _hook(name: str | Hook | TripFunction) -> Hook:
    if not isinstance(name, str):
        return FunctionHook(name) if callable(name) else name
    if name not in HOOKS:
        raise HookError(f"there is no hook called {name!r}; there are {', '.join(HOOKS)}")
    if importlib.util.find_spec(name) is None:
        raise HookError(f"--log {name} needs the package {name}: pip install {name}")
    return HOOKS[name]()


def _about(folder: RunFolder) -> dict[str, Any]:
    """Return the data of a run for `begin`, without its secret."""
    header = folder.header
    return {
        "name": folder.name,
        "folder": folder.path.name,
        "editor": header.editor,
        "options": header.options,
        "suite": folder.suite.slug,
        "suite_version": folder.suite.version,
        "suite_hash": folder.suite.content_hash,
        "trips": folder.suite.trips,
        "chains": len(folder.chains),
        **{k: v for k, v in header.provenance.items() if k != "editor"},
    }
