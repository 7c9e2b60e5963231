"""Rows of the board, for the page, the downloads and the API.

A standing is what one metric says about a run: half-life, usable trips, rank. `query.BoardQuery`
parses a URL into filters, and `board_rows(filters)` returns the rows. All numbers are read from
stored standings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from django.db import connection
from django.db.models import Exists, F, OuterRef

from evaluation.metrics import in_order, semantic_metrics
from leaderboard import formatting
from leaderboard.board.columns import sorted_rows
from leaderboard.board.row import BoardFilters, BoardRow, price_of, provider_of
from leaderboard.models import Run, Standing, Suite
from leaderboard.models.runs import ACTIVE_STATES, RunState

RANKED, UNRANKED, REFERENCE = "ranked", "unranked", "reference"
#: Fields that the board does not show; the API key is secret.
DEFERRED = ("provenance", "editing_model__options", "editing_model__api_key")


def suites() -> list[Suite]:
    """Return the frozen suites: those with results first, then the others, each by importance."""
    results = Run.objects.on_the_board().filter(suite=OuterRef("pk"))
    frozen = Suite.objects.frozen().annotate(has_results=Exists(results)).defer("definition")
    return list(frozen.order_by("-has_results", "-importance", "slug", "-version"))


def played_suites() -> list[Suite]:
    """Return the frozen suites, except those whose results were published elsewhere."""
    return [suite for suite in suites() if not suite.published_elsewhere]


def runs_of(suite: Suite) -> list[Run]:
    """Return one run per model: the current run, or else the newest."""
    runs = (
        Run.objects.public()
        .outside_experiments()
        .filter(suite=suite)
        .exclude(state=RunState.CANCELLED, current=False)
        .select_related("editing_model", "people")
        .annotate(
            contract=F("provenance__model__contract"), returned=F("provenance__answers__returned")
        )
        .defer(*DEFERRED)
        .order_by("-current", "-created_at")
    )
    by_model: dict[int, Run] = {}
    for run in runs:
        first = by_model.setdefault(run.editing_model_id, run)
        first.added_at = min(filter(None, (first.added_at, run.finished_at)), default=None)
    return list(by_model.values())


def metrics_of(runs: Iterable[Run]) -> list[str]:
    """Return the metrics by which at least one of these runs was scored, in display order."""
    return in_order(name for run in runs for name in run.scored_metrics)


def board_rows(
    filters: BoardFilters, runs: Sequence[Run] | None = None, *, with_trips: bool = False
) -> list[BoardRow]:
    """Return ranked models, then unranked models, then reference editors, each group sorted.

    `with_trips` also reads the standings' lists with a value per trip (BY_TRIP).
    """
    runs = [run for run in runs or runs_of(filters.suite) if _passes(run, filters)]
    names = {filters.metric, *semantic_metrics()}
    standings = standings_of(runs, filters.threshold, filters.scope, names, with_trips=with_trips)
    for run in runs:
        run.suite = filters.suite
    by_run = standings.get(filters.metric, {})
    if filters.ranks_here:
        for standings_of_metric in standings.values():
            for standing in standings_of_metric.values():
                standing.use_place_here()
    semantic = standings.get(_semantic_metric(runs, standings) or "", {})
    measured = bool(by_run)
    rows = [_row(run, by_run.get(run.pk), semantic.get(run.pk), filters, measured) for run in runs]
    return [row for group in grouped(rows).values() for row in sorted_rows(group, filters.sort)]


def grouped(rows: Iterable[BoardRow]) -> dict[str, list[BoardRow]]:
    """Return the rows by group. A group may be empty."""
    groups: dict[str, list[BoardRow]] = {RANKED: [], UNRANKED: [], REFERENCE: []}
    for row in rows:
        groups[row.group].append(row)
    return groups


def _semantic_metric(
    runs: Iterable[Run], standings: Mapping[str, Mapping[int, Standing]]
) -> str | None:
    """Return the first semantic metric that every measured run has.

    Otherwise returns the last semantic metric that any run has.
    """
    measured = {run.pk for run in runs if any(run.pk in by_run for by_run in standings.values())}
    complete = [
        name for name in semantic_metrics() if measured and measured <= set(standings.get(name, {}))
    ]
    partial = [name for name in reversed(semantic_metrics()) if standings.get(name)]
    return next(iter(complete + partial), None)


def stamp() -> str:
    """Return a string that changes whenever the board's content changes.

    The query runs on every request. It is raw SQL, because the ORM would take longer to build it
    than the database takes to run it.
    """
    with connection.cursor() as cursor:
        cursor.execute(STAMP)
        return "|".join(str(value) for value in cursor.fetchone())


STAMP = """
SELECT (SELECT max(computed_at) FROM leaderboard_standing),
       (SELECT max(updated_at) FROM leaderboard_editingmodel),
       (SELECT sum(id) FROM leaderboard_editingmodel WHERE status = 'published'),
       (SELECT max(updated_at) FROM leaderboard_suite),
       (SELECT max(updated_at) FROM leaderboard_publishedfigure),
       (SELECT count(*) FROM leaderboard_publishedfigure),
       (SELECT sum(id * (importance + 1)) FROM leaderboard_suite WHERE status = 'frozen'),
       count(*), max(created_at), max(started_at), max(finished_at),
       sum(CASE WHEN published THEN id ELSE 0 END), sum(CASE WHEN current THEN id ELSE 0 END),
       sum(CASE WHEN complete THEN id ELSE 0 END), sum(CASE WHEN cleared THEN id ELSE 0 END),
       sum(CASE WHEN state = 'paused' THEN id ELSE 0 END),
       sum(CASE WHEN state = 'failed' THEN id ELSE 0 END),
       -- Progress bars of active runs, in steps of 5 %.
       sum(CASE WHEN state IN ('queued', 'playing', 'scoring') AND edits_total > 0
           THEN 20 * edits_done / edits_total + 40 * trips_scored / edits_total ELSE 0 END)
FROM leaderboard_run
JOIN leaderboard_runprogress progress ON progress.run_id = id
JOIN leaderboard_runreview review ON review.run_id = id
"""


#: Fields of a standing that are lists with a value per trip. They take longest to read.
BY_TRIP = ("survival", "incidence", "usable_by_trip")


def standings_of(
    runs: Iterable[Run],
    threshold: float,
    scope: str,
    names: Iterable[str],
    *,
    with_trips: bool = False,
) -> dict[str, dict[int, Standing]]:
    """Return standings by metric name and run, only of each metric's most common version."""
    rows = list(
        Standing.objects.filter(
            run__in=[run.pk for run in runs],
            threshold=threshold,
            scope=scope,
            metric__name__in=names,
        )
        .select_related("metric")
        .defer("details", *(() if with_trips else BY_TRIP))
    )
    versions = _common_versions((s.metric.name, s.metric_id) for s in rows)
    by_metric: dict[str, dict[int, Standing]] = {name: {} for name in versions}
    for standing in rows:
        if versions[standing.metric.name] == standing.metric_id:
            by_metric[standing.metric.name][standing.run_id] = standing
    return by_metric


def _common_versions(names_and_versions: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return each metric's most common version; of equally common versions, the latest."""
    counted = Counter(names_and_versions)
    return {
        name: version
        for (name, version), _ in sorted(counted.items(), key=lambda item: (item[1], item[0][1]))
    }


def _row(
    run: Run,
    standing: Standing | None,
    semantic: Standing | None,
    filters: BoardFilters,
    measured: bool,
) -> BoardRow:
    group = _group(run, standing, filters)
    needs_reason = group == UNRANKED or (group == REFERENCE and not standing)
    reason = _unranked_reason(run, filters, measured) if needs_reason else ""
    return BoardRow(group, run, run.editing_model, standing, semantic, filters, reason)


def _group(run: Run, standing: Standing | None, filters: BoardFilters) -> str:
    """Return the group of the board that the run belongs to."""
    if run.editing_model.is_reference:
        return REFERENCE
    ranked = run.current and run.is_ranked and standing and run.played in filters.ranked_ways
    return RANKED if ranked else UNRANKED


def _unranked_reason(run: Run, filters: BoardFilters, measured: bool) -> str:
    """Return why this run has no rank."""
    if run.state in ACTIVE_STATES:
        return f"{run.get_state_display()} now"
    if run.state == RunState.PAUSED:
        return f"Paused: {run.reason_text}" if run.reason_text else "Paused"
    if run.state == RunState.FAILED:
        return "The run failed"
    if run.source == Run.Source.PUBLISHED:
        return "Published elsewhere"
    if run.source == Run.Source.EXTERNAL:
        if run.verified is None:
            return "Played elsewhere, not checked yet"
        return f"Played elsewhere, numbers {'checked' if run.verified else 'not reproduced'}"
    if reason := run.unranked_reason:
        return f"{reason[:1].upper()}{reason[1:]}"
    if run.played not in filters.ranked_ways:
        return "Not run here"
    label = formatting.metric_label(filters.metric)
    scored = filters.metric in run.scored_metrics
    if scored and measured:
        return f"Scored by another version of {label}"
    if scored and run.progress.edits_saved:
        return f"Stopped early: half-life by {label} not known"
    return f"{label} {formatting.NOT_RUN}" if not scored else "No case of this kind"


def _passes(run: Run, filters: BoardFilters) -> bool:
    """Return True if the run passes the filters on models. Reference editors always pass."""
    model = run.editing_model
    if model.is_reference:
        return True
    text = f"{model.name} {model.slug} {model.provider} {model.organisation}".casefold()
    price = price_of(run)
    added = run.added_at and run.added_at.date()
    return (
        all(word in text for word in filters.search.casefold().split())
        and filters.provider in ("", provider_of(model))
        and (not filters.weights or model.open_weights is (filters.weights == "open"))
        and filters.played in ("", run.played)
        and (filters.price is None or (price is not None and price <= filters.price))
        and (filters.since is None or (added is not None and added >= filters.since))
    )
