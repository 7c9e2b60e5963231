"""Weights & Biases: a run there for each run here. Its own settings (WANDB_PROJECT, WANDB_MODE, …) hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from evaluation.cli.hooks import numbers
from evaluation.cli.results import MetricResult


class WandbHook:
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
            known = {f"trip/{name}": value for name, value in trip.items() if value is not None}
            self.run.log({**known, "played": self.played})

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        if self.run is None:
            return
        self.run.summary.update(numbers(results))
        for name, result in (results or {}).items():
            rows = [[n, q] for n, q in enumerate(result.summary.curve) if q is not None]
            table = self.wandb.Table(data=rows, columns=["trips", "kept"])
            self.run.log({f"{name}/curve": table})
        self.run.finish()
        self.run = None
