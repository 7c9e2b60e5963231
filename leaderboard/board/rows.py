"""Rows of the board, as shown by the page, the downloads and the API.

`query.BoardQuery` parses an address and `board_rows(filters)` returns its rows.
All numbers are read from standings; this module computes none.
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
#: Fields that no board shows; the API key is secret.
DEFERRED = ("provenance", "editing_model__options", "editing_model__api_key")


def suites() -> list[Suite]:
    """Return the frozen suites: those with results first, then by importance."""
    results = Run.objects.on_the_board().filter(suite=OuterRef("pk"))
    frozen = Suite.objects.frozen().annotate(has_results=Exists(results)).defer("definition")
    return list(frozen.order_by("-has_results", "-importance", "slug", "-version"))


def played_suites() -> list[Suite]:
    """Return the suites whose images were played here."""
    return [suite for suite in suites() if not suite.published_elsewhere]


def runs_of(suite: Suite) -> list[Run]:
    """Return one run per model: its current run, else its newest."""
    runs = (
        Run.objects.public()
        .as_the_suite_says()
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
    """Return the metrics that scored any of these runs, in display order."""
    return in_order(name for run in runs for name in run.scored_metrics)


def board_rows(
    filters: BoardFilters, runs: Sequence[Run] | None = None, *, whole: bool = False
) -> list[BoardRow]:
    """Return ranked models, then unranked ones, then reference editors.

    Each group is sorted. With `whole`, standings include the lists by trip.
    """
    runs = [run for run in runs or runs_of(filters.suite) if _wanted(run, filters)]
    names = {filters.metric, *semantic_metrics()}
    standings = standings_of(runs, filters.threshold, filters.scope, names, whole=whole)
    for run in runs:
        run.suite = filters.suite
    chosen = standings.get(filters.metric, {})
    if filters.ranks_here:
        for by_run in standings.values():
            for standing in by_run.values():
                standing.show_place_here()
    meaning = standings.get(_semantic_metric(runs, standings) or "", {})
    measured = bool(chosen)
    rows = [_row(run, chosen.get(run.pk), meaning.get(run.pk), filters, measured) for run in runs]
    return [row for group in grouped(rows).values() for row in sorted_rows(group, filters.sort)]


def grouped(rows: Iterable[BoardRow]) -> dict[str, list[BoardRow]]:
    """Return the rows of each group; a group may be empty."""
    groups: dict[str, list[BoardRow]] = {RANKED: [], UNRANKED: [], REFERENCE: []}
    for row in rows:
        groups[row.group].append(row)
    return groups


def _semantic_metric(
    runs: Iterable[Run], standings: Mapping[str, Mapping[int, Standing]]
) -> str | None:
    """Return CLIP if every measured run has it, else ImageNet features.

    Falls back to any semantic metric that scored at least one of the runs.
    """
    measured = {run.pk for run in runs if any(run.pk in by_run for by_run in standings.values())}
    complete = [
        name for name in semantic_metrics() if measured and measured <= set(standings.get(name, {}))
    ]
    partial = [name for name in reversed(semantic_metrics()) if standings.get(name)]
    return next(iter(complete + partial), None)


def stamp() -> str:
    """Return a string that changes whenever the board's content changes.

    One cheap query, in raw SQL: it runs on every request, and the ORM would take longer to
    build the query than the database takes to run it.
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
       -- The bars of what is under way, in twentieths.
       sum(CASE WHEN state IN ('queued', 'playing', 'scoring') AND edits_total > 0
           THEN 20 * edits_done / edits_total + 40 * trips_scored / edits_total ELSE 0 END)
FROM leaderboard_run
JOIN leaderboard_runprogress progress ON progress.run_id = id
JOIN leaderboard_runreview review ON review.run_id = id
"""


#: Lists that take longer to read than the rest of a standing.
BY_TRIP = ("survival", "incidence", "usable_by_trip")


def standings_of(
    runs: Iterable[Run],
    threshold: float,
    scope: str,
    names: Iterable[str],
    *,
    whole: bool = False,
) -> dict[str, dict[int, Standing]]:
    """Return standings by metric name and run, in the most common version."""
    rows = list(
        Standing.objects.filter(
            run__in=[run.pk for run in runs],
            threshold=threshold,
            scope=scope,
            metric__name__in=names,
        )
        .select_related("metric")
        .defer("details", *(() if whole else BY_TRIP))
    )
    versions = _latest_versions((s.metric.name, s.metric_id) for s in rows)
    by_metric: dict[str, dict[int, Standing]] = {name: {} for name in versions}
    for standing in rows:
        if versions[standing.metric.name] == standing.metric_id:
            by_metric[standing.metric.name][standing.run_id] = standing
    return by_metric


def _latest_versions(found: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return each metric's most common version; the latest of equals."""
    counted = Counter(found)
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
    placed = group == RANKED or (group == REFERENCE and standing)
    reason = "" if placed else _unranked(run, filters, measured)
    return BoardRow(group, run, run.editing_model, standing, semantic, filters, reason)


def _group(run: Run, standing: Standing | None, filters: BoardFilters) -> str:
    """Return the group of the board that the run belongs to."""
    if run.editing_model.is_reference:
        return REFERENCE
    ranked = run.current and run.is_ranked and standing and run.played in filters.ranked_ways
    return RANKED if ranked else UNRANKED


def _unranked(run: Run, filters: BoardFilters, measured: bool) -> str:
    """Return the reason why this run has no rank."""
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
        return f"Played elsewhere, numbers {'checked' if run.verified else 'did not recompute'}"
    if reason := run.unranked_reason:
        return f"{reason[:1].upper()}{reason[1:]}"
    if run.played not in filters.ranked_ways:
        return "Not run here"
    label = formatting.metric_label(filters.metric)
    scored = filters.metric in run.scored_metrics
    if scored and measured:
        return f"Scored by another version of {label}"
    if scored and run.progress.edits_saved:
        return f"Stopped early: its end by {label} is not known"
    return f"{label} {formatting.NOT_RUN}" if not scored else "No case of this kind"


def _wanted(run: Run, filters: BoardFilters) -> bool:
    """Return True if the filters include this run; reference editors always pass."""
    model = run.editing_model
    if model.is_reference:
        return True
    words = f"{model.name} {model.slug} {model.provider} {model.organisation}".casefold()
    price = price_of(run)
    added = run.added_at and run.added_at.date()
    return (
        all(word in words for word in filters.search.casefold().split())
        and filters.provider in ("", provider_of(model))
        and (not filters.weights or model.open_weights is (filters.weights == "open"))
        and filters.played in ("", run.played)
        and (filters.price is None or (price is not None and price <= filters.price))
        and (filters.since is None or (added is not None and added >= filters.since))
    )
