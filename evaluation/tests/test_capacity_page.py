"""The capacity page says what `estimate` says."""

from __future__ import annotations

from pathlib import Path

from evaluation.audits.plan import audit_count
from evaluation.content import catalog
from evaluation.estimate import estimate

PAGE = Path(__file__).resolve().parents[2] / "docs/capacity.md"


def test_the_table_is_what_estimate_gives():
    suite = catalog.suite("standard")
    edits = suite.edits + audit_count(len(suite.cases))
    one = estimate(edits, 0.045, 10.0, 4, chains=suite.chains)
    trips = suite.chains * suite.trips
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| 1")]
    assert len(lines) == 4
    for line in lines:
        models, *found = (int(cell.replace(",", "")) for cell in line.strip("| ").split("|"))
        expected = (edits, one.usd, one.hours, edits * 1.1 / 1000, trips, trips * 10)
        for stated, each in zip(found, expected, strict=True):
            assert abs(stated - models * (each or 0)) <= 0.5 + 1e-6
