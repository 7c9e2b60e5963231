"""The tables of the paper: standings in, rows of words out. Nothing is computed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from evaluation.analysis.events import CAUSES
from evaluation.content.suites import ticks
from evaluation.metrics import METRICS, in_order
from leaderboard import formatting
from leaderboard.board import breakdowns
from leaderboard.board.row import BoardRow
from leaderboard.board.rows import standings_of
from leaderboard.exchange.documents.blocks import Table
from leaderboard.models import Case, PeopleReport, Standing, Suite, SuitePicture
from leaderboard.models.suites import Category, Kind
from leaderboard.pages import robustness
from leaderboard.pages.people import agreement

NOTHING = "–"


def suite_table(suite: Suite) -> Table:
    """How many cases of each category there are on each kind of picture."""
    counts = Counter(Case.objects.filter(suite=suite).values_list("category", "kind"))
    kinds = [(value, label) for value, label in Kind.choices if any(k == value for _, k in counts)]
    rows = []
    for category, label in Category.choices:
        numbers = [counts[category, kind] for kind, _ in kinds]
        if sum(numbers):
            rows.append([str(label), *map(str, numbers), str(sum(numbers))])
    licences = Counter(
        SuitePicture.objects.filter(suite=suite).values_list("licence", flat=True)
    ).most_common()
    told = ", ".join(f"{licence or 'not stated'} ({count})" for licence, count in licences)
    return Table(
        "suite",
        "Cases of the suite by category of edit and kind of picture",
        ["Category", *(str(label) for _, label in kinds), "All"],
        rows,
        note=f"Licences of the pictures: {told}." if told else "",
    )


def standings_table(rows: Sequence[BoardRow], trips: int) -> Table:
    """Every model that was measured, with its interval and the ranks it may have."""
    reasons = [f"{row.model.name}: {row.reason}." for row in rows if row.reason]
    return Table(
        "standings",
        f"Standings: usable trips of {trips}, half-life and ranks, with 95 % intervals",
        [
            *("Model", "Rank", "Ranks possible", "Usable trips", "95 %", "Half-life"),
            *("95 %", "P(first)"),
        ],
        [
            [
                row.model.name,
                *_rank(row.standing),
                *_lasts(row.standing, trips),
                formatting.percent(row.standing.p_first),
            ]
            for row in rows
            if row.standing
        ],
        note="Models that the cases cannot tell apart share a rank. "
        + (f"Not ranked: {' '.join(reasons)}" if reasons else ""),
    )


def besides_table(rows: Sequence[BoardRow]) -> Table:
    """What else is known of each run."""
    return Table(
        "besides",
        "Area under the curve, edits that were made, refusals, price and date",
        ["Model", "AUC", "Change seen", "Refused", "USD per edit", "Played"],
        [[row.model.name, *_besides(row)] for row in rows if row.standing],
    )


def yardsticks_table(rows: Sequence[BoardRow], trips: int) -> Table:
    """The reference editors: the scale of the board, and its self-test."""
    return Table(
        "yardsticks",
        "Reference editors, which follow prompts by rule and do a known damage",
        ["Editor", "Usable trips", "95 %", "Half-life", "95 %", "Change seen"],
        [
            [
                row.model.name,
                *_lasts(row.standing, trips),
                formatting.percent(row.change_seen),
            ]
            for row in rows
            if row.standing
        ],
    )


def _rank(standing: Standing | None) -> list[str]:
    if standing is None or standing.rank is None:
        return [NOTHING, NOTHING]
    possible = formatting.ranks(standing.rank_low, standing.rank_high)
    return [str(standing.rank), possible or str(standing.rank)]


def _lasts(standing: Standing | None, trips: int) -> list[str]:
    if standing is None:
        return [formatting.NOT_RUN] * 4
    usable = formatting.interval(standing.usable_trips_low, standing.usable_trips_high)
    half = ""
    if standing.has_interval:
        half = formatting.half_life_interval(
            standing.half_life_low, standing.half_life_high, trips
        ) or formatting.half_life(None, trips)
    return [
        f"{standing.usable_trips:.1f}",
        usable or NOTHING,
        formatting.half_life(standing.half_life, trips),
        half or NOTHING,
    ]


def _besides(row: BoardRow) -> list[str]:
    return [
        NOTHING if row.auc is None else f"{row.auc:.2f}",
        formatting.percent(row.change_seen),
        formatting.percent(row.refusals),
        formatting.usd(row.price),
        f"{row.date:%Y-%m-%d}" if row.date else NOTHING,
    ]


def kept_table(rows: Sequence[BoardRow], trips: int) -> Table:
    """The curves as numbers."""
    numbers = ticks(trips)

    def kept(standing: Standing) -> list[str]:
        mean = standing.curve.get("mean") or []
        return [formatting.percent(mean[n] if n < len(mean) else None) for n in numbers]

    return Table(
        "kept",
        "Picture kept after so many round trips, mean over cases",
        ["Model", *(str(number) for number in numbers)],
        [[row.model.name, *kept(row.standing)] for row in rows if row.standing],
        note="100 % is the source itself, 0 % a blank card of its mean colour.",
    )


def category_table(rows: Sequence[BoardRow]) -> Table:
    """Usable trips by category of edit."""
    by_scope = breakdowns.standings_by_scope(rows, "category:")
    parts = breakdowns.parts(by_scope, {})
    lines = [
        [row.model.name, *(_usable(by_scope[part.scope].get(row.run.pk)) for part in parts)]
        for row in rows
        if row.standing
    ]
    return Table(
        "categories",
        "Usable trips by category of edit, with 95 % intervals where there are enough cases",
        ["Model", *(str(part.label) for part in parts)],
        lines,
    )


def _usable(standing: Standing | None) -> str:
    if standing is None:
        return formatting.NOT_RUN
    around = formatting.interval(standing.usable_trips_low, standing.usable_trips_high)
    return f"{standing.usable_trips:.1f}{f' ({around})' if around else ''}"


def causes_table(rows: Sequence[BoardRow]) -> Table:
    """What ended the chains."""
    counted = {row.run.pk: row.standing.counts.get("causes") or {} for row in rows if row.standing}
    present = [name for name in CAUSES if any(found.get(name) for found in counted.values())]

    def shares(standing: Standing) -> list[str]:
        chains = standing.counts.get("chains") or 0
        found = counted[standing.run_id]
        ended = [found.get(name, 0) for name in present]
        lasting = max(0, chains - sum(found.values()))
        return [formatting.percent(n / chains) if chains else NOTHING for n in (*ended, lasting)]

    return Table(
        "causes",
        "What ended the chains: share of each cause, and of chains that did not end",
        ["Model", *(_capital(CAUSES[name]) for name in present), "Still usable or unknown"],
        [[row.model.name, *shares(row.standing)] for row in rows if row.standing],
    )


def metrics_table(rows: Sequence[BoardRow], level: float) -> Table:
    """Usable trips by every metric."""
    runs = [row.run for row in rows if row.standing]
    names = in_order({name for run in runs for name in run.scored_metrics})
    found = standings_of(runs, level, "all", names)
    names = [name for name in names if found.get(name)]
    return Table(
        "metrics",
        "Usable trips by each metric",
        ["Model", *(formatting.metric_label(name) for name in names)],
        [
            [row.model.name, *(_number(found[name].get(row.run.pk)) for name in names)]
            for row in rows
            if row.standing
        ],
        note="Metrics wear at different speeds: compare models within a column, never columns.",
    )


def _number(standing: Standing | None) -> str:
    return formatting.NOT_RUN if standing is None else f"{standing.usable_trips:.1f}"


def versions_table(rows: Sequence[BoardRow]) -> Table:
    """Which code and which weights measured."""
    pinned: dict[tuple[str, str, str], int] = Counter()
    for row in rows:
        for name, about in row.run.metrics.items():
            if "version" in about:
                key = (name, str(about["version"]), str(about.get("weights_sha256") or ""))
                pinned[key] += 1
    known = list(METRICS)
    lines = sorted(pinned, key=lambda key: (known.index(key[0]) if key[0] in known else 99, key))
    return Table(
        "versions",
        "Metrics as they were run",
        ["Metric", "Version", "Weights (SHA-256, first 16)", "Runs"],
        [
            [formatting.metric_label(name), version, weights[:16] or "none", str(pinned[key])]
            for key in lines
            for name, version, weights in [key]
        ],
    )


def audits_table(rows: Sequence[BoardRow]) -> Table | None:
    """What the audits found; None where none was played."""
    audited = [
        row
        for row in rows
        if row.run.review.marks_kept is not None or row.run.review.loss_under_audit is not None
    ]
    if not audited:
        return None
    return Table(
        "audits",
        "Audits: what came back when a model's own answer was touched",
        ["Model", "Marks kept", "Loss under audit", "What else its edits changed", "Judged"],
        [
            [
                row.model.name,
                formatting.percent(row.run.review.marks_kept),
                formatting.percent(row.run.review.loss_under_audit),
                formatting.percent(row.run.review.changed_elsewhere),
                _judged(row),
            ]
            for row in audited
        ],
        note="Marks kept below 50 %, or a loss above 30 %, takes a run out of the ranks until a "
        "person has looked.",
    )


def _judged(row: BoardRow) -> str:
    if not row.run.review.flags:
        return "nothing found"
    return "looked at, lets rank" if row.run.review.cleared else "out of the ranks"


def people_tables(rows: Sequence[BoardRow]) -> list[Table]:
    """What people say: of each model, and of each metric; empty without votes."""
    found = []
    seen = [row for row in rows if getattr(row.run, "people", None) and row.run.people.votes]
    if seen:
        found.append(
            Table(
                "people",
                "What people prefer in blind pairs, ties halved",
                ["Model", "Share won", "95 %", "Votes", "Voters"],
                [
                    [
                        row.model.name,
                        formatting.percent(row.run.people.share),
                        formatting.interval(
                            row.run.people.share_low, row.run.people.share_high, 100, 0
                        )
                        or NOTHING,
                        f"{row.run.people.votes:,}",
                        f"{row.run.people.voters:,}",
                    ]
                    for row in seen
                ],
                note="Never part of the half-life.",
            )
        )
    report = PeopleReport.objects.first()
    lines = agreement.lines(report.numbers) if report else []
    agreeing = [line for line in lines if line.everywhere]
    if agreeing:
        found.append(
            Table(
                "agreement",
                "How often a metric or witness says of a pair what people say (whole site)",
                ["Metric or witness", "Where it speaks", "Where all speak"],
                [[line.label, line.share, line.shared_share] for line in agreeing],
            )
        )
    return found


def robustness_table(report: Mapping[str, object], suite: Suite, pairs: Mapping[str, str]) -> Table:
    """Kendall's tau of the board's order with the orders that other choices give."""
    groups = robustness.groups(report, suite, pairs)
    return Table(
        "robustness",
        "How far the order agrees with the orders by other choices (Kendall's tau)",
        ["Choice", "Agreement"],
        [[f"{group.title}: {line.choice}", line.shown] for group in groups for line in group.lines],
        note="1 is the same order, -1 the reverse.",
    )


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
