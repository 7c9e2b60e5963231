"""MLflow: a run there for each run here. Its own settings (MLFLOW_TRACKING_URI, …) hold."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from evaluation.cli.hooks import numbers
from evaluation.cli.results import MetricResult

#: What MLflow takes of a parameter.
MAX_PARAMETER = 500


class MlflowHook:
    def __init__(self) -> None:
        import mlflow

        self.mlflow, self.run_id = mlflow, ""
        self.played = 0

    def begin(self, about: Mapping[str, Any]) -> None:
        if not os.environ.get("MLFLOW_EXPERIMENT_NAME"):
            self.mlflow.set_experiment("convergebench")
        name = f"{about['name']} on {about['suite']}"
        # Trips come from several threads, and MLflow's own "active run" is one thread's.
        self.run_id = self.mlflow.start_run(run_name=name).info.run_id
        told = {
            key: (value if isinstance(value, str) else json.dumps(value, default=str))
            for key, value in about.items()
        }
        self.mlflow.log_params({key: text[:MAX_PARAMETER] for key, text in told.items()})

    def on_trip(self, trip: Mapping[str, Any]) -> None:
        self.played += 1
        known = {
            f"trip/{name}": float(value)
            for name, value in trip.items()
            if isinstance(value, int | float)
        }
        self.mlflow.log_metrics(known, step=self.played, run_id=self.run_id)

    def end(self, results: Mapping[str, MetricResult] | None) -> None:
        self.mlflow.log_metrics(numbers(results), run_id=self.run_id)
        for name, result in (results or {}).items():
            for trips, kept in enumerate(result.summary.curve):
                if kept is not None:
                    self.mlflow.log_metric(f"{name}/kept", kept, step=trips, run_id=self.run_id)
        self.mlflow.end_run()
