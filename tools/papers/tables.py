"""Build the report's tables from rows of the board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.analysis.events import CAUSES
from evaluation.content.suites import ticks
from evaluation.metrics import METRICS, in_order
from evaluation.witnesses import witness_label
from leaderboard import formatting
from tools.papers.documents import NOTHING, Table

#: A row of the board, a standing, a run or a suite from the API.
Json = Mapping[str, Any]
#: Maps each run to its standings (results by one metric and scope) at the default threshold.
Standings = Mapping[int, Sequence[Json]]


def suite_table(definition: Json) -> Table:
    """Count the cases by category of edit and kind of image."""
    categories = {pair["slug"]: pair["category"] for pair in definition["pairs"]}
    images = {image["slug"]: image for image in definition["images"]}
    counts = Counter(
        (categories[case["pair"]], images[case["image"]]["kind"]) for case in definition["cases"]
    )
    kinds = sorted({kind for _, kind in counts})
    rows = []
    for category in sorted({category for category, _ in counts}):
        numbers = [counts[category, kind] for kind in kinds]
        rows.append([category.capitalize(), *map(str, numbers), str(sum(numbers))])
    licences = Counter(image["licence"] for image in images.values()).most_common()
    listed = ", ".join(f"{licence or 'not stated'} ({count})" for licence, count in licences)
    return Table(
        "suite",
        "Cases of the suite by category of edit and kind of image",
        ["Category", *(kind.capitalize() for kind in kinds), "All"],
        rows,
        note=f"Licences of the images: {listed}." if listed else "",
    )


def standings_table(rows: Sequence[Json], trips: int) -> Table:
    """List every model with its interval and possible ranks."""
    reasons = [f"{row['model']['name']}: {row['reason']}." for row in rows if row["reason"]]
    return Table(
        "standings",
        f"Standings: usable trips of {trips}, half-life and ranks, with 95 % intervals",
        [
            "Model",
            "Rank",
            "Ranks possible",
            "Usable trips",
            "95 %",
            "Half-life",
            "95 %",
            "P(first)",
        ],
        [
            [
                row["model"]["name"],
                *_rank(row["standing"]),
                *_lasts(row["standing"], trips),
                formatting.percent(row["standing"]["p_first"]),
            ]
            for row in rows
        ],
        note="Models share a rank if their results do not differ significantly. "
        + (f"Not ranked: {' '.join(reasons)}" if reasons else ""),
    )


def details_table(rows: Sequence[Json]) -> Table:
    """Show area under the curve, edits made, refusals, price and date of each model."""
    return Table(
        "besides",
        "Area under the curve, edits made, refusals, price and date",
        ["Model", "AUC", "Change seen", "Refused", "USD per edit", "Played"],
        [
            [
                row["model"]["name"],
                _decimals(row["standing"]["auc"], 2),
                formatting.percent(row["change_seen"]),
                formatting.percent(row["refusals"]),
                formatting.usd(row["usd_per_edit"]),
                (row["date"] or NOTHING)[:10],
            ]
            for row in rows
        ],
    )


def reference_editors_table(rows: Sequence[Json], trips: int) -> Table:
    return Table(
        "references",
        "Reference editors, which edit by rule with a known damage",
        ["Editor", "Usable trips", "95 %", "Half-life", "95 %", "Change seen"],
        [
            [
                row["model"]["name"],
                *_lasts(row["standing"], trips),
                formatting.percent(row["change_seen"]),
            ]
            for row in rows
        ],
    )


def retention_table(rows: Sequence[Json], trips: int) -> Table:
    """Show the mean retention of each model after some numbers of round trips."""
    numbers = ticks(trips)

    def retentions(standing: Json) -> list[str]:
        mean = standing["curve"].get("mean") or []
        return [formatting.percent(mean[n] if n < len(mean) else None) for n in numbers]

    return Table(
        "kept",
        "Retention after each number of round trips, mean over cases",
        ["Model", *(str(number) for number in numbers)],
        [[row["model"]["name"], *retentions(row["standing"])] for row in rows],
        note="100 % is the source itself, 0 % a blank card of its mean colour.",
    )


def category_table(rows: Sequence[Json], standings: Standings) -> Table:
    """Show usable trips by category of edit."""
    by_run = {
        row["run"]: {
            standing["scope"].removeprefix("category:"): standing
            for standing in standings[row["run"]]
            if standing["metric"] == row["standing"]["metric"]
            and standing["scope"].startswith("category:")
        }
        for row in rows
    }
    categories = sorted({name for scopes in by_run.values() for name in scopes})
    return Table(
        "categories",
        "Usable trips by category of edit, with 95 % intervals if there are enough cases",
        ["Model", *(name.capitalize() for name in categories)],
        [
            [row["model"]["name"], *(_usable(by_run[row["run"]].get(c)) for c in categories)]
            for row in rows
        ],
    )


def causes_table(rows: Sequence[Json]) -> Table:
    """Show the share of chains ended by each cause."""
    counted = {row["run"]: row["standing"]["counts"].get("causes") or {} for row in rows}
    present = [name for name in CAUSES if any(causes.get(name) for causes in counted.values())]

    def shares(row: Json) -> list[str]:
        chains = row["standing"]["counts"].get("chains") or 0
        causes = counted[row["run"]]
        ended = [causes.get(name, 0) for name in present]
        lasting = max(0, chains - sum(causes.values()))
        return [formatting.percent(n / chains) if chains else NOTHING for n in (*ended, lasting)]

    heads = [CAUSES[name][:1].upper() + CAUSES[name][1:] for name in present]
    return Table(
        "causes",
        "Share of chains ended by each cause, and of chains that did not end",
        ["Model", *heads, "Still usable or unknown"],
        [[row["model"]["name"], *shares(row)] for row in rows],
    )


def metrics_table(rows: Sequence[Json], standings: Standings) -> Table:
    """Show usable trips by every metric."""
    by_run = {row["run"]: usable_trips(standings[row["run"]]) for row in rows}
    names = in_order({name for metrics in by_run.values() for name in metrics})
    return Table(
        "metrics",
        "Usable trips by each metric",
        ["Model", *(formatting.metric_label(name) for name in names)],
        [
            [
                row["model"]["name"],
                *(
                    f"{metrics[name]:.1f}" if name in metrics else formatting.NOT_RUN
                    for name in names
                ),
            ]
            for row in rows
            for metrics in [by_run[row["run"]]]
        ],
        note="Metrics fall at different rates: compare models within a column, not columns.",
    )


def usable_trips(standings: Sequence[Json]) -> dict[str, float]:
    """Return the usable trips over all cases, by metric."""
    return {row["metric"]: row["usable_trips"] for row in standings if row["scope"] == "all"}


def versions_table(runs: Sequence[Json]) -> Table:
    """List the versions and weights of the metrics that were run."""
    pinned: Counter[tuple[str, str, str]] = Counter()
    for run in runs:
        for name, about in run["metrics"].items():
            if "version" in about:
                weights = str(about.get("weights_sha256") or "")
                pinned[name, str(about["version"]), weights] += 1
    order = list(METRICS)
    lines = sorted(pinned, key=lambda key: (order.index(key[0]) if key[0] in order else 99, key))
    return Table(
        "versions",
        "Versions of the metrics",
        ["Metric", "Version", "Weights (SHA-256, first 16)", "Runs"],
        [
            [formatting.metric_label(name), version, weights[:16] or "none", str(pinned[key])]
            for key in lines
            for name, version, weights in [key]
        ],
    )


def audits_table(rows: Sequence[Json], runs: Mapping[int, Json]) -> Table | None:
    """Show the findings of audits; None if no run was audited."""
    audited = [
        (row["model"]["name"], run)
        for row in rows
        for run in [runs[row["run"]]]
        if run["marks_kept"] is not None or run["loss_under_audit"] is not None
    ]
    if not audited:
        return None
    return Table(
        "audits",
        "Audits: answers to altered images",
        [
            "Model",
            "Marks kept",
            "Loss under audit",
            "Cold gap",
            "Unrequested changes",
            "Judged",
        ],
        [
            [
                name,
                formatting.percent(run["marks_kept"]),
                formatting.percent(run["loss_under_audit"]),
                formatting.percent(run["cold_gap"]),
                formatting.percent(run["changed_elsewhere"]),
                _judged(run),
            ]
            for name, run in audited
        ],
        note="Marks kept: the share of marks, painted on a model's answer, that came back. Loss "
        "under audit: the loss if the answer is altered harmlessly. Cold gap: by how much one edit "
        "of an image that the model has not seen loses more than three trips. A run with less than "
        "50 % of marks kept, a loss above 30 % or a cold gap above 2 % is unranked until a person "
        "has checked it.",
    )


def people_tables(rows: Sequence[Json], agreement: Json) -> list[Table]:
    """Show votes for models, and agreement of metrics with votes; empty without votes."""
    tables = []
    preferred = [row for row in rows if row["people_prefer"] is not None]
    if preferred:
        tables.append(
            Table(
                "people",
                "People's preferences in blind comparisons; a tie counts half for each model",
                ["Model", "Share won", "95 %"],
                [
                    [
                        row["model"]["name"],
                        formatting.percent(row["people_prefer"]),
                        formatting.interval(row["people_low"], row["people_high"], 100, 0)
                        or NOTHING,
                    ]
                    for row in preferred
                ],
                note="Votes do not affect half-lives.",
            )
        )
    lines = [line for line in agreement.get("lines", ()) if line.get("everywhere")]
    if lines:
        tables.append(
            Table(
                "agreement",
                "How often metrics and witnesses agree with people's votes (whole site)",
                [
                    "Metric or witness",
                    "On votes that it can decide",
                    "On votes that all can decide",
                ],
                [
                    [_label(line), _share(line["everywhere"]), _share(line.get("shared"))]
                    for line in lines
                ],
            )
        )
    return tables


def robustness_table(lines: Sequence[tuple[str, float]]) -> Table:
    """Show Kendall's tau of the board's order with the orders by other choices."""
    return Table(
        "robustness",
        "Agreement of the order with the orders by other choices (Kendall's tau)",
        ["Choice", "Agreement"],
        [[choice, f"{tau:.2f}".replace("-", "−")] for choice, tau in lines],
        note="1 is the same order, -1 the reverse order.",
    )


def _rank(standing: Json) -> list[str]:
    if standing["rank"] is None:
        return [NOTHING, NOTHING]
    possible = formatting.ranks(standing["rank_low"], standing["rank_high"])
    return [str(standing["rank"]), possible or str(standing["rank"])]


def _lasts(standing: Json, trips: int) -> list[str]:
    around = ""
    if standing["has_interval"]:
        low, high = standing["half_life_low"], standing["half_life_high"]
        around = formatting.half_life_interval(low, high, trips)
        around = around or formatting.half_life(None, trips)
    return [
        f"{standing['usable_trips']:.1f}",
        interval(standing) or NOTHING,
        formatting.half_life(standing["half_life"], trips),
        around or NOTHING,
    ]


def interval(standing: Json) -> str:
    """Format the interval of the usable trips; empty without an interval."""
    if not standing["has_interval"]:
        return ""
    return formatting.interval(standing["usable_trips_low"], standing["usable_trips_high"])


def _usable(standing: Json | None) -> str:
    if standing is None:
        return formatting.NOT_RUN
    around = interval(standing)
    return f"{standing['usable_trips']:.1f}{f' ({around})' if around else ''}"


def _decimals(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _judged(run: Json) -> str:
    if not run["held_because"]:
        return "nothing found"
    return "checked, ranked" if run["ranked"] else "unranked"


def _label(line: Json) -> str:
    label = formatting.metric_label if line.get("kind") == "metric" else witness_label
    return str(label(line["name"]))


def _share(share: Json | None) -> str:
    if not share:
        return NOTHING
    around = formatting.interval(share["low"], share["high"], 100, 0)
    return f"{formatting.percent(share['share'])}{f' ({around})' if around else ''}"
