"""What witnesses and rules say of a run: edits by category, how its chains fail, the judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.analysis.failure_labels import LABELS, LEVELS
from evaluation.measuring.error_rates import WEAR, ErrorTable
from evaluation.witnesses import WITNESSES, witness_class, witness_label
from leaderboard import formatting
from leaderboard.models import Run, Standing
from leaderboard.models.suites import Category


@dataclass(frozen=True)
class Label:
    """One way to fail, and how many chains failed so."""

    name: str
    count: int
    share: float

    @property
    def words(self) -> str:
        return LABELS[self.name]


def labels(standing: Standing) -> dict[str, list[Label]]:
    """How the chains fail: by level, and by kind."""
    counts = standing.details.get("labels") or {}
    chains = standing.counts["chains"]
    found = [Label(name, counts[name], counts[name] / chains) for name in LABELS if name in counts]
    return {
        "levels": [label for label in found if label.name in LEVELS],
        "kinds": [label for label in found if label.name not in LEVELS],
    }


@dataclass(frozen=True)
class Line:
    """What one witness says of one category: "41 of 42" where it could tell."""

    category: str
    witness: str
    made: str
    undone: str
    kept: str


def lines(standing: Standing) -> list[Line]:
    """By category and witness: in how many trips it saw the edit made, undone, the rest kept."""
    heard: Mapping[str, Mapping[str, Mapping[str, Any]]] = standing.details.get("witnesses") or {}
    return [
        Line(
            dict(Category.choices).get(category, category),
            witness_label(name),
            *(_share(counts.get(what)) for what in ("made", "undone", "kept")),
        )
        for category, by_witness in heard.items()
        for name, counts in sorted(by_witness.items(), key=lambda item: _place(item[0]))
    ]


def judge(run: Run) -> Mapping[str, Any]:
    """The judge that was asked, with what to think of its answers; empty without one."""
    told: Mapping[str, Any] = run.provenance.get("judge") or {}
    return told


def known() -> list[dict[str, Any]]:
    """Every witness, for people who have never heard of them."""
    names = ("name", "label", "can", "cannot", "licence")
    kinds = [witness_class(name) for name in WITNESSES]
    return [
        {name: getattr(kind, name) for name in names}
        | {"ends": ", ".join(sorted(gate.replace("_", " ") for gate in kind.gates))}
        for kind in kinds
    ]


def error_rows() -> list[dict[str, Any]]:
    """How often each errs, over all suites and kinds of wear: what was asked and done."""
    rows: dict[tuple[str, str, bool], dict[str, Any]] = {}
    for row in ErrorTable.stored("witness").rows:
        what, _, wear = row.what.rpartition(", ")
        what = what if wear in WEAR else row.what
        found = rows.setdefault(
            (row.of, what, row.should_be_seen),
            {
                "of": witness_label(row.of),
                "what": what,
                "should_be_seen": row.should_be_seen,
                "judged": 0,
                "wrong": 0,
            },
        )
        found["judged"] += row.judged
        found["wrong"] += len(row.wrong)
    return list(rows.values())


def _share(said: list[int] | None) -> str:
    if not said:
        return "–"
    yes, judged = said
    return f"{formatting.percent(yes / judged)} of {judged:,}"


def _place(name: str) -> int:
    return list(WITNESSES).index(name) if name in WITNESSES else len(WITNESSES)
