"""Print and store the tables of error rates that the studies measure."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from evaluation.cli.printing import table
from evaluation.measuring.error_rates import ErrorRate, ErrorTable, table_file


def as_json(measured: ErrorTable, **more: Any) -> str:
    rows = [asdict(row) for row in measured.rows]
    data = {"suites": dict(measured.suites), "rows": rows, **more}
    return json.dumps(data, indent=1, ensure_ascii=False)


def store(measured: ErrorTable, name: str) -> None:
    """Store the table that the methodology page shows."""
    table_file(name).write_text(as_json(measured) + "\n", encoding="utf-8")


def merged(old: ErrorTable, new: ErrorTable) -> ErrorTable:
    """Return the old table with the new rows; rows measured again replace the old ones."""
    again = {(row.of, row.what, row.suite) for row in new.rows}
    kept = tuple(row for row in old.rows if (row.of, row.what, row.suite) not in again)
    return ErrorTable({**old.suites, **new.suites}, (*kept, *new.rows))


def as_text(head: list[str], rates: list[tuple[str, ErrorRate]]) -> str:
    """Format a table of error rates; `head` names the first two columns."""
    return table(
        [*head, "judged", "seen", "wrong", "wrong for"],
        [
            [
                first,
                rate.what,
                str(rate.judged),
                str(rate.seen),
                f"{rate.rate:.0%}",
                _examples(rate),
            ]
            for first, rate in rates
        ],
    )


def _examples(rate: ErrorRate) -> str:
    return ", ".join(rate.wrong[:3]) + (" …" if len(rate.wrong) > 3 else "")
