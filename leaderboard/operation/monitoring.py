"""Values for Prometheus, read from the database at every scrape.

Every web process therefore reports the same values, even after a restart. Only the number and
duration of requests are counted by each process.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, Min, Q, Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from leaderboard import job_queue
from leaderboard.models import Audit, Call, Chain, Run, Trip
from leaderboard.models.runs import ACTIVE_STATES, ChainState, RunState

#: The latest period whose calls are reported.
WINDOW = timedelta(hours=1)
PREFIX = "convergebench"


class SiteCollector(Collector):
    """The values of all runs and of work under way, queried at every scrape."""

    def collect(self) -> Iterator[Metric]:
        yield from self._runs()
        yield from self._work()
        yield from self._calls()
        yield from self._workers()

    def describe(self) -> list[Metric]:
        return []  # otherwise, registering the collector would query everything

    def _runs(self) -> Iterator[Metric]:
        """Yield values by model, from the counters stored with runs."""
        states = _gauge("runs", "Runs by state.", "state")
        for state, count in _grouped(Run.objects, "state", Count("pk")):
            states.add_metric([state], count)
        yield states
        paused = _gauge("runs_paused", "Paused runs that wait for a person, by reason.", "reason")
        stuck = Run.objects.filter(state=RunState.PAUSED, resume_at=None)
        for reason, count in _grouped(stuck, "reason", Count("pk")):
            paused.add_metric([reason], count)
        yield paused
        counters = {
            "calls": ("Calls made, answered or not.", "calls"),
            "edits": ("Edits that were answered.", "edits_done"),
            "edits_saved": ("Edits saved because the result was known.", "edits_saved"),
            "spent_usd": ("USD spent on calls.", "spent_usd"),
            "trips_scored": ("Trips scored.", "trips_scored"),
        }
        sums = {name: Sum(f"progress__{field}") for name, (_, field) in counters.items()}
        ours = Run.objects.filter(source=Run.Source.OURS).order_by()
        rows = list(ours.values_list("editing_model__slug").annotate(**sums))
        for column, (name, (description, _)) in enumerate(counters.items(), start=1):
            family = CounterMetricFamily(f"{PREFIX}_{name}", description, labels=["model"])
            for row in rows:
                family.add_metric([row[0]], float(row[column] or 0))
            yield family

    def _work(self) -> Iterator[Metric]:
        """Yield waiting chains, chains in flight, and the lag of scoring."""
        now = timezone.now()
        active = Chain.objects.filter(run__state__in=ACTIVE_STATES)
        in_flight = _gauge("chains_in_flight", "Chains that a live worker plays.", "model")
        for model, count in _grouped(active.in_flight(), "run__editing_model__slug", Count("pk")):
            in_flight.add_metric([model], count)
        yield in_flight
        age = _gauge(
            "queue_age_seconds",
            "Seconds without progress of a run that has chains to play.",
            "model",
        )
        waiting = Run.objects.filter(
            state__in=(RunState.QUEUED, RunState.PLAYING),
            pk__in=active.free().ready().values("run"),
        )
        since = Min(F("created_at")), Min("progress__progress_at")
        rows = waiting.order_by().values_list("editing_model__slug").annotate(*since)
        for model, created, progress in rows:
            age.add_metric([model], max(0.0, (now - (progress or created)).total_seconds()))
        yield age
        lapsed = _gauge("leases_lapsed", "Chains whose worker has stopped responding.")
        lapsed.add_metric([], active.free().filter(state=ChainState.PLAYING).count())
        yield lapsed
        unscored = _gauge("scoring_lag_trips", "Restored images that are not scored yet.", "model")
        lag = active.unscored().order_by().values_list("run__editing_model__slug")
        for model, played, scored in lag.annotate(Sum("trips_played"), Sum("trips_scored")):
            unscored.add_metric([model], played - scored)
        yield unscored
        oldest = Trip.objects.filter(
            chain__in=active.unscored(), restored__isnull=False, scored_at=None
        ).aggregate(first=Min("created_at"))["first"]
        lag_age = _gauge("scoring_lag_seconds", "Age of the oldest trip that is not scored.")
        lag_age.add_metric([], (now - oldest).total_seconds() if oldest else 0.0)
        yield lag_age
        audits = _gauge(
            "audits", "Audits (extra test calls) of runs under way, by outcome.", "outcome"
        )
        rows = Audit.objects.filter(chain__run__state__in=ACTIVE_STATES)
        for outcome, count in _grouped(rows, "outcome", Count("pk")):
            audits.add_metric([outcome or "planned"], count)
        yield audits

    def _calls(self) -> Iterator[Metric]:
        """Yield the outcomes of the last hour's calls, such as `rate_limited` or `lost`."""
        since = timezone.now() - WINDOW
        # Filter by run, because the ledger of calls is indexed by run and time.
        recent = Run.objects.filter(
            Q(progress__progress_at__gte=since) | Q(state__in=ACTIVE_STATES)
        )
        family = _gauge("calls_last_hour", "Calls begun in the last hour.", "model", "outcome")
        calls = Call.objects.filter(run__in=recent, started_at__gte=since).order_by()
        rows = calls.values_list("run__editing_model__slug", "outcome").annotate(Count("pk"))
        for model, outcome, count in rows:
            family.add_metric([model, outcome], count)
        yield family

    def _workers(self) -> Iterator[Metric]:
        alive = _gauge("workers", "Workers alive; no value if Redis does not answer.", "queue")
        for name in (job_queue.EDITS, job_queue.GPU, job_queue.PROBES):
            alive.add_metric([name], job_queue.workers(name) or 0)
        yield alive


def exposition(process_registry: CollectorRegistry) -> bytes:
    """Return the values of the site and of this process in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SiteCollector())
    return generate_latest(registry) + generate_latest(process_registry)


def _gauge(name: str, description: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", description, labels=list(labels))


def _grouped(rows: Any, by: str, aggregate: Any) -> list[tuple[str, int]]:
    """Return each value of `by` with its aggregate."""
    return list(rows.order_by().values_list(by).annotate(aggregate))
