"""Where a run is told as it is played: to wandb, to MLflow, or to anything of one's own.

A hook is told when a run begins, after every trip, and what came of it. One that fails says so
once and is told no more: a run that is paid for does not end because a logger did.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from evaluation.cli.printing import note
from evaluation.cli.results import MetricResult
from evaluation.errors import UserFacingError
from evaluation.play.run_folder import PlayedChain, RunFolder

#: By name; paths, so that nothing is imported that nobody asked for.
HOOKS = {
    "wandb": "evaluation.cli.hooks.wandb_hook:WandbHook",
    "mlflow": "evaluation.cli.hooks.mlflow_hook:MlflowHook",
}


class HookError(UserFacingError):
    """A hook that is not there."""


class Hook(Protocol):
    """What is told of a run; trips may come from several threads, one at a time."""

    def begin(self, about: Mapping[str, Any]) -> None:
        """The run's name, editor, options, suite and secret's hash, as plain data."""

    def on_trip(self, trip: Mapping[str, Any]) -> None:
        """A trip that was played: chain, picture, pair, trip, seconds, cost."""

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        """What came of it by metric, the headline first; None where it was not scored."""


class Hooks:
    """Several hooks as one, each of which may fail on its own."""

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = list(hooks)
        self._lock = threading.Lock()

    @classmethod
    def of(cls, names: str | Hook | Iterable[str | Hook] | None) -> Hooks:
        """The hooks of these names ("wandb,mlflow") or objects; HookError where one is not here."""
        if names is None:
            return cls()
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",") if name.strip()]
        elif not isinstance(names, Iterable):
            names = [names]
        return cls([_hook(one) if isinstance(one, str) else one for one in names])

    def begin(self, folder: RunFolder) -> None:
        if self._hooks:
            about = _about(folder)
            self._each(lambda hook: hook.begin(about))

    def on_trip(self, chain: PlayedChain) -> None:
        if self._hooks:
            trip = trip_row(chain)
            self._each(lambda hook: hook.on_trip(trip))

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        self._each(lambda hook: hook.end(results))

    def _each(self, tell: Callable[[Hook], None]) -> None:
        with self._lock:
            for hook in list(self._hooks):
                try:
                    tell(hook)
                # Somebody else's code, and perhaps a network, is behind it.
                except Exception as error:
                    self._hooks.remove(hook)
                    name = type(hook).__name__
                    note(f"{name} is told no more: {type(error).__name__}: {error}")


def trip_row(chain: PlayedChain) -> dict[str, Any]:
    """The last trip of a chain, as plain data."""
    steps = chain.trips[-1]
    costs = [half.cost for half in steps if half.cost is not None]
    return {
        "chain": chain.slug,
        "picture": chain.picture,
        "pair": chain.pair,
        "trip": steps[-1].number,
        "seconds": sum(half.seconds for half in steps),
        "cost": sum(costs) if costs else None,
    }


def numbers(results: Mapping[str, MetricResult] | None) -> dict[str, float]:
    """The results as flat numbers, such as picture/usable_trips; what is not known is left out.

    A half-life beyond the suite's trips is none: usable_trips says how far it goes.
    """
    found: dict[str, float | None] = {}
    for name, result in (results or {}).items():
        summary, bounds = result.summary, result.bounds
        found[f"{name}/usable_trips"] = summary.usable_trips
        found[f"{name}/half_life"] = summary.half_life
        found[f"{name}/auc"] = summary.auc
        for bound, interval in (
            ("usable_trips", bounds.usable_trips),
            ("half_life", bounds.half_life),
        ):
            found[f"{name}/{bound}_low"] = interval.low if interval else None
            found[f"{name}/{bound}_high"] = interval.high if interval else None
    if results:
        first = next(iter(results.values())).summary
        found["change_seen"], found["edits_made"] = first.change_seen, first.edits_made
    return {name: value for name, value in found.items() if value is not None}


def _hook(name: str) -> Hook:
    path = HOOKS.get(name)
    if path is None:
        raise HookError(f"there is no hook called {name!r}; there are {', '.join(HOOKS)}")
    if importlib.util.find_spec(name) is None:
        raise HookError(f"--log {name} needs the package {name}: pip install {name}")
    made: Hook = pkgutil.resolve_name(path)()
    return made


def _about(folder: RunFolder) -> dict[str, Any]:
    """What a run begins with; its secret stays here, since seeds are drawn by it."""
    header = folder.header
    return {
        "name": folder.name,
        "folder": folder.path.name,
        "editor": header["editor"],
        "options": header["options"],
        "suite": folder.suite.slug,
        "suite_version": folder.suite.version,
        "suite_hash": folder.suite.content_hash,
        "trips": folder.suite.trips,
        "chains": len(folder.chains),
        **{k: v for k, v in header.get("provenance", {}).items() if k != "editor"},
    }
