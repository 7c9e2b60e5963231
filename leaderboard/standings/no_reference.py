"""What no-reference metrics say of a run: computed by the core, stored for the pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evaluation.analysis.diagnostics.no_reference import QualityChain, no_reference_numbers
from evaluation.metrics.no_reference import no_reference_pins
from leaderboard.models import Chain, NoReferenceResult, Run


def quality_metrics(run: Run) -> dict[str, Mapping[str, Any]]:
    """The no-reference metrics of a run, those that were imported too, as each was run."""
    # A run that was played in a shell has its judge in the provenance of its scores.
    judge = run.provenance.get("scoring", {}).get("judge")
    return no_reference_pins(run.metrics, {"judge": judge, **run.provenance})


def write_no_reference(run: Run, chains: Iterable[Chain]) -> None:
    """Write what the metrics say of these chains, whose results are known; in a transaction."""
    known = [
        QualityChain(chain.case_id, chain.quality, chain.retention(chain.headline))
        for chain in chains
    ]
    numbers = no_reference_numbers(known, run.suite.trips, quality_metrics(run))
    if numbers:
        NoReferenceResult.objects.update_or_create(run=run, defaults={"numbers": numbers})
    else:
        NoReferenceResult.objects.filter(run=run).delete()
