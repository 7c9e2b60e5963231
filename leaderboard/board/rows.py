"""The board's rows: what the page, the downloads and the API show alike.

`board_form.read` understands an address, `board_rows(filters)` answers it.
Numbers come from standings; nothing is computed here.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Exists, OuterRef

from leaderboard import formatting
from leaderboard.models import EditingModel, Run, Standing, Suite
from leaderboard.models.runs import ACTIVE_STATES, RunState

#: The order in which metrics are offered; the first that was run is the default.
METRICS = ("lpips", "clip", "imagenet", "ms_ssim", "ssim", "psnr", "worst_window")
#: The semantic column: the first of these that every model shown has.
SEMANTIC = ("clip", "imagenet")
RANKED, UNRANKED, YARDSTICK = "ranked", "unranked", "yardstick"


@dataclass(frozen=True)
class BoardFilters:
    """What an address asks for. `weights` is "", "open" or "closed"."""

    suite: Suite
    metric: str = "lpips"
    level: float = 0.5
    scope: str = "all"
    weights: str = ""
    sort: str = "half_life"
    #: Every model, not only the first page of them.
    every: bool = False

    def query(self, **changes: Any) -> str:
        """The address's query with some things changed; what is default is left out."""
        other = replace(self, **changes)
        values = {
            "suite": suite_key(other.suite),
            "metric": other.metric,
            "level": f"{other.level:g}",
            "cases": other.scope,
            "weights": other.weights,
            "sort": other.sort,
            "every": "1" if other.every else "",
        }
        plain = {"level": "0.5", "cases": "all", "sort": "half_life"}
        return urlencode({k: v for k, v in values.items() if v and v != plain.get(k)}, safe=":")


@dataclass(frozen=True)
class BoardRow:
    """One model. `reason` says why it is not ranked; a standing of None was not run."""

    group: str
    run: Run
    model: EditingModel
    standing: Standing | None
    semantic: Standing | None
    reason: str = ""

    @property
    def provider(self) -> str:
        """Who serves the model; of local weights, who made them."""
        if self.model.access == EditingModel.Access.LOCAL:
            return self.model.organisation or self.model.provider
        return self.model.provider or self.model.organisation

    @property
    def half_life(self) -> float | None:
        """For sorting: unreached counts as endless, unmeasured as None."""
        if self.standing is None:
            return None
        return _endless(self.standing.half_life)

    @property
    def semantic_half_life(self) -> float | None:
        return None if self.semantic is None else _endless(self.semantic.half_life)

    @property
    def usable_trips(self) -> float | None:
        return None if self.standing is None else self.standing.usable_trips

    @property
    def auc(self) -> float | None:
        return None if self.standing is None else self.standing.auc

    @property
    def change_seen(self) -> float | None:
        """The share of judged trips on which the change was seen."""
        return None if self.standing is None else self.standing.counts.get("change_seen")

    @property
    def refusals(self) -> float | None:
        """The share of chains that the model refused; None where nobody wrote it down."""
        if self.standing is None or not self.standing.counts.get("chains"):
            return None
        if self.run.source == Run.Source.PUBLISHED:
            return None
        counts: dict[str, int] = self.standing.counts
        return counts.get("refused", 0) / counts["chains"]

    @property
    def price(self) -> float | None:
        """USD per edit: as paid in this run, else as listed."""
        paid = self.run.usd_per_edit
        listed = self.model.price_per_edit
        return paid if paid is not None else None if listed is None else float(listed)

    @property
    def seconds(self) -> float | None:
        return self.run.seconds_per_edit

    @property
    def date(self) -> datetime.datetime | None:
        return self.run.finished_at or self.run.started_at


#: What can be sorted by, and whether the first click puts the largest first.
SORTS: dict[str, tuple[Any, bool]] = {
    "name": (lambda row: row.model.name.casefold(), False),
    "provider": (lambda row: row.provider.casefold(), False),
    "weights": (lambda row: row.model.open_weights, True),
    "half_life": (lambda row: row.half_life, True),
    "semantic": (lambda row: row.semantic_half_life, True),
    "usable": (lambda row: row.usable_trips, True),
    "curve": (lambda row: row.auc, True),
    "change_seen": (lambda row: row.change_seen, True),
    "refusals": (lambda row: row.refusals, False),
    "price": (lambda row: row.price, False),
    "seconds": (lambda row: row.seconds, False),
    "date": (lambda row: row.date, True),
}


def suite_key(suite: Suite) -> str:
    """ "smoke-v1": a suite and its version as one word of an address."""
    return f"{suite.slug}-v{suite.version}"


def suites() -> list[Suite]:
    """Frozen suites, those with results first, then by importance."""
    results = Run.objects.on_the_board().filter(suite=OuterRef("pk"))
    found = Suite.objects.frozen().annotate(has_results=Exists(results)).defer("definition")
    return list(found.order_by("-has_results", "-importance", "slug", "-version"))


def find_suite(key: str, among: Sequence[Suite]) -> Suite | None:
    """The suite of a key: "smoke-v1", or "smoke" for its newest version."""
    by_key = {suite_key(suite): suite for suite in among}
    newest = [suite for suite in among if suite.slug == key]
    return by_key.get(key) or max(newest, key=lambda suite: suite.version, default=None)


def runs_of(suite: Suite) -> list[Run]:
    """One run per model: the one that stands for it, else its newest."""
    runs = (
        Run.objects.public()
        .filter(suite=suite)
        .exclude(state=RunState.CANCELLED, current=False)
        .select_related("editing_model")
        .defer("provenance", "editing_model__options", "editing_model__api_key")
        .order_by("-current", "-created_at")
    )
    found: dict[int, Run] = {}
    for run in runs:
        found.setdefault(run.editing_model_id, run)
    return list(found.values())


def metrics_of(runs: Iterable[Run]) -> list[str]:
    """The metrics that any of these runs was scored by, in the order they are offered."""
    scored = {
        name for run in runs for name, pinned in run.metrics.items() if "missing" not in pinned
    }
    known = [name for name in METRICS if name in scored]
    return known + sorted(scored - set(METRICS))


def board_rows(filters: BoardFilters, runs: Sequence[Run] | None = None) -> list[BoardRow]:
    """Ranked models, then those that are not ranked, then the yardsticks; each group sorted."""
    runs = [run for run in runs or runs_of(filters.suite) if _wanted(run, filters.weights)]
    names = {filters.metric, *SEMANTIC}
    standings = _standings(runs, filters.level, filters.scope, names)
    semantic = standings.get(semantic_metric(runs, standings) or "", {})
    chosen = standings.get(filters.metric, {})
    for run in runs:
        run.suite = filters.suite
    rows = [
        _row(run, chosen.get(run.pk), semantic.get(run.pk), filters, bool(chosen)) for run in runs
    ]
    return [
        row
        for group in (RANKED, UNRANKED, YARDSTICK)
        for row in _sorted([row for row in rows if row.group == group], filters.sort)
    ]


def semantic_of(rows: Iterable[BoardRow]) -> str | None:
    """The metric of the semantic column; None when no row has one."""
    return next((row.semantic.metric.name for row in rows if row.semantic), None)


def semantic_metric(
    runs: Iterable[Run], standings: Mapping[str, Mapping[int, Standing]]
) -> str | None:
    """CLIP where every model shown has it, else ImageNet features, else whatever there is."""
    measured = {run.pk for run in runs if any(run.pk in found for found in standings.values())}
    complete = [name for name in SEMANTIC if measured and measured <= set(standings.get(name, {}))]
    partial = [name for name in reversed(SEMANTIC) if standings.get(name)]
    return next(iter(complete + partial), None)


def stamp() -> str:
    """Changes whenever anything the board shows changes; one cheap query.

    As text, because it runs on every request and building it takes longer than running it.
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
       sum(CASE WHEN state = 'failed' THEN id ELSE 0 END)
FROM leaderboard_run
"""


def _standings(
    runs: Iterable[Run], level: float, scope: str, names: Iterable[str]
) -> dict[str, dict[int, Standing]]:
    """Standings by metric name and run; of a metric, only the version most runs have."""
    found = list(
        Standing.objects.filter(
            run__in=[run.pk for run in runs], level=level, scope=scope, metric__name__in=names
        )
        .select_related("metric")
        .defer("details")
    )
    versions = Counter((s.metric.name, s.metric_id) for s in found)
    kept: dict[str, int] = {}
    for (name, version), _ in sorted(versions.items(), key=lambda item: (item[1], item[0][1])):
        kept[name] = version
    by_metric: dict[str, dict[int, Standing]] = {name: {} for name in kept}
    for standing in found:
        if kept[standing.metric.name] == standing.metric_id:
            by_metric[standing.metric.name][standing.run_id] = standing
    return by_metric


def _row(
    run: Run,
    standing: Standing | None,
    semantic: Standing | None,
    filters: BoardFilters,
    measured: bool,
) -> BoardRow:
    if run.editing_model.is_reference:
        group, reason = YARDSTICK, "" if standing else _unranked(run, filters, measured)
    elif run.current and run.is_ranked and standing:
        group, reason = RANKED, ""
    else:
        group, reason = UNRANKED, _unranked(run, filters, measured)
    return BoardRow(group, run, run.editing_model, standing, semantic, reason)


def _unranked(run: Run, filters: BoardFilters, measured: bool) -> str:
    """Why this run has no rank, in words."""
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
    if run.flags and not run.cleared:
        return "Flagged, under review"
    if not run.complete:
        missing = run.chains_total - run.chains_done
        return (
            f"Incomplete: {formatting.count(missing, 'case')} missing" if missing else "Incomplete"
        )
    label = formatting.metric_label(filters.metric)
    scored = "missing" not in run.metrics.get(filters.metric, {"missing": True})
    if scored and measured:
        return f"Scored by another version of {label}"
    return f"{label} {formatting.NOT_RUN}" if not scored else "No case of this kind"


def _wanted(run: Run, weights: str) -> bool:
    if not weights or run.editing_model.is_reference:
        return True
    return run.editing_model.open_weights is (weights == "open")


def board_order(row: BoardRow) -> tuple[float, float, float]:
    """The board's own order: half-life, then usable trips, then what is kept on average."""
    return -(row.half_life or 0), -(row.usable_trips or 0), -(row.auc or 0)


def _sorted(rows: list[BoardRow], sort: str) -> list[BoardRow]:
    """By the column asked for; ties by the board's own order, what is unknown last."""
    rows.sort(key=lambda row: row.model.name.casefold())
    rows.sort(key=board_order)
    name, flipped = sort.removeprefix("-"), sort.startswith("-")
    value, largest_first = SORTS[name]
    known = [row for row in rows if value(row) is not None]
    known.sort(key=value, reverse=largest_first != flipped)
    return known + [row for row in rows if value(row) is None]


def _endless(half_life: float | None) -> float:
    return float("inf") if half_life is None else half_life
