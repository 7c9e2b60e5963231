"""The audited cases are drawn by the secret, enough in number and unpredictable."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.audits import plan as planning
from evaluation.audits.plan import LEAST, Audit
from evaluation.content import catalog
from evaluation.content.suites import Suite
from evaluation.run_secret import chain_seeds, new_secret

SMOKE = catalog.suite("smoke")
SECRETS = st.text("0123456789abcdef", min_size=64, max_size=64)


def plan(secret: str, suite: Suite) -> list[Audit]:
    """The audits of touched answers; test_cold.py has the others."""
    return [audit for audit in planning.plan(secret, suite) if audit.kind != "cold"]


@given(SECRETS)
def test_a_small_suite_has_a_dozen_cases_audited_half_of_them_marked(secret):
    audits = plan(secret, SMOKE)
    assert len({audit.case for audit in audits}) == len(audits) == LEAST
    assert sum(audit.kind == "mark" for audit in audits) == LEAST // 2
    assert all(2 <= audit.number <= SMOKE.trips for audit in audits)
    assert audits == plan(secret, SMOKE)


def test_a_large_suite_has_one_in_ten_cases_audited():
    large = max(catalog.suites(), key=lambda suite: len(suite.cases))
    assert len(plan(new_secret(), large)) == max(LEAST, -(-len(large.cases) // 10))


@pytest.mark.parametrize("cases", [1, 5])
def test_every_case_of_a_tiny_suite_is_audited(cases):
    tiny = dataclasses.replace(SMOKE, cases=SMOKE.cases[:cases], trips=1)
    assert {audit.case for audit in plan("x", tiny)} == {case.slug for case in tiny.cases}


def test_a_change_of_style_is_never_marked():
    pairs = tuple(
        dataclasses.replace(pair, change="global", operator="") if pair.change == "local" else pair
        for pair in SMOKE.pairs
    )
    styled = dataclasses.replace(SMOKE, pairs=pairs)
    for number in range(20):
        for audit in plan(f"secret {number}", styled):
            pair = styled.pair_by_slug[audit.case.partition("--")[2]]
            assert audit.kind == "fragility" or pair.change != "global"


@given(SECRETS)
def test_marks_are_painted_where_a_stored_source_would_help_most(secret):
    audits = plan(secret, SMOKE)
    changes = {c.slug: SMOKE.pair_by_slug[c.pair].change for c in SMOKE.cases}
    turned = [audit for audit in audits if changes[audit.case] == "exact"]
    spare = [a for a in audits if a.kind == "fragility" and changes[a.case] == "local"]
    assert not spare or all(audit.kind == "fragility" for audit in turned)


def test_another_secret_audits_other_cases_with_other_seeds():
    plans = [plan(f"secret {number}", SMOKE) for number in range(8)]
    assert len({tuple(audit.case for audit in one) for one in plans}) == 8
    seeds = {audit.seed(f"secret {n}") for n, one in enumerate(plans) for audit in one}
    assert len(seeds) == sum(len(one) for one in plans)


def test_an_audit_has_its_own_seed():
    for audit in plan("secret", SMOKE):
        own = chain_seeds("secret", audit.case, audit.repeat)
        assert audit.seed("secret") != own(audit.number, "backward")
