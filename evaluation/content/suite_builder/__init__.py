"""Suites drafted by filters: which pictures meet which pairs, balanced and reproducible.

`python -m evaluation.content.suite_builder` builds the suites that ship again and writes
them to fixtures/suites/; `--check` only says whether they are up to date.
"""

from __future__ import annotations

from evaluation.content.suite_builder.building import balance, build, refusals
from evaluation.content.suite_builder.drafts import Candidate, Draft, Facts, facts, from_facts
from evaluation.content.suite_builder.shipped import SHIPPED, shipped, suite_path, write

__all__ = [
    "SHIPPED",
    "Candidate",
    "Draft",
    "Facts",
    "balance",
    "build",
    "facts",
    "from_facts",
    "refusals",
    "shipped",
    "suite_path",
    "write",
]
