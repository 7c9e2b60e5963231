"""Chains that stop when their result is known have the same numbers for fewer edits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT
from evaluation.bundle.verify import Verification
from evaluation.run_secret import new_secret
from leaderboard import jobs, standings
from leaderboard.jobs import score_job
from leaderboard.models import Audit, Chain, Run, Standing, Suite, Trip
from leaderboard.models.runs import ChainState, Outcome, RunState
from leaderboard.testing import bundle_runs, factories
from leaderboard.testing.played import once

TRIPS, K = 8, 2
SECRET = new_secret()
EXACT = (
    *("half_life", "half_life_low", "half_life_high", "usable_trips", "usable_trips_low"),
    *("usable_trips_high", "survival", "incidence", "usable_by_trip"),
)


def play_to_the_end(run: Run) -> Run:
    """Play and score in turn, as two workers would."""
    for _ in range(3 * TRIPS):
        jobs.play(run.pk)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(score_job, "LINGER_SECONDS", 0)  # no other job plays meanwhile
            jobs.score(run.pk)
        run.refresh_from_db()
        if run.state == RunState.FINISHED:
            return run
    raise AssertionError(f"the run stays {run.state}")


def begin(suite: Suite, editor: str, stop_after: int, **fields: Any) -> Run:
    slug = f"{editor}-{stop_after}"
    model = factories.editing_model(slug, editor, **fields)
    return jobs.start(model, suite, secret=SECRET, stop_after=stop_after)


@pytest.fixture(scope="module")
def runs(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[tuple[str, int], Run]]:
    """Runs of several models, each with all trips and with early stopping."""

    def make() -> dict[tuple[str, int], Run]:
        suite = factories.tiny_suite(1, trips=TRIPS)
        models = {"noise": {"options": {"sigma": 25.0}}, "noop": {}, "oracle": {}}
        return {
            (editor, k): play_to_the_end(begin(suite, editor, k, **fields))
            for editor, fields in models.items()
            for k in (0, K)
        }

    yield from once(django_db_blocker, make)


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]


@pytest.mark.parametrize("editor", ["noise", "noop", "oracle"])
def test_a_stopped_run_has_the_headline_of_the_full_one_for_fewer_edits(runs, editor):
    full, short = runs[editor, 0], runs[editor, K]
    assert short.progress.edits_done < full.progress.edits_done
    assert short.complete
    headline = full.scored_metrics[0]
    rows = {
        run.pk: {
            (s.threshold, s.scope): s
            for s in Standing.objects.filter(run=run, metric__name=headline)
        }
        for run in (full, short)
    }
    assert rows[full.pk].keys() == rows[short.pk].keys()
    for key, standing in rows[full.pk].items():
        for name in EXACT:
            assert getattr(rows[short.pk][key], name) == getattr(standing, name), (key, name)


def test_the_outcome_of_each_chain_is_shown(runs):
    noise = runs["noise", K].chains.all()
    assert {chain.outcome for chain in noise} == {Outcome.KNOWN}
    for chain in noise:
        assert chain.trips_played == chain.known_at + K < TRIPS
        assert chain.auc is None
        assert chain.usable_trips is not None
    for editor in ("noop", "oracle"):
        for chain in runs[editor, K].chains.all():
            assert (chain.outcome, chain.trips_played) == (Outcome.CONVERGED, K + 1)
            assert len(chain.retention("ssim")) == TRIPS
    assert set(runs["noise", 0].chains.values_list("outcome", flat=True)) == {Outcome.COMPLETED}


def test_a_converged_run_has_every_number_of_the_full_one(runs):
    for editor in ("noop", "oracle"):
        rows = [
            list(
                Standing.objects.filter(run=runs[editor, k])
                .order_by("metric", "threshold", "scope")
                .values("metric", "threshold", "scope", "auc", "curve", *EXACT)
            )
            for k in (0, K)
        ]
        assert rows[0] == rows[1]


def test_a_chain_waits_for_its_scores_before_it_is_played_on():
    run = begin(factories.tiny_suite(1, trips=TRIPS, slug="waits"), "jpeg", K)
    jobs.play(run.pk)
    assert set(run.chains.values_list("trips_played", "state")) == {(K + 1, ChainState.WAITING)}
    run.refresh_from_db()
    assert run.state == RunState.PLAYING
    jobs.play(run.pk)
    assert set(run.chains.values_list("trips_played", flat=True)) == {K + 1}, "nothing is scored"
    assert not run.chains.free().ready().exists()
    Chain.objects.filter(run=run).update(trips_scored=1)
    assert run.chains.free().ready().count() == run.chains.count()
    jobs.play(run.pk)
    assert set(run.chains.values_list("trips_played", flat=True)) == {K + 2}


def test_a_stopped_run_is_bundled_and_verified(runs, tmp_path: Path):
    for editor in ("noise", "oracle"):
        run = Run.objects.select_related("suite", "editing_model").get(pk=runs[editor, K].pk)
        path = bundle_runs.bundle_of(run, tmp_path)
        with bundles.read(path) as bundle:
            assert bundle.document.run.stop_after == K
            wrong = [c for c in Verification(bundle).checks() if c.verdict == DIFFERENT]
        assert wrong == []


def test_a_bundle_cannot_claim_that_a_chain_converged(runs, tmp_path: Path):
    run = Run.objects.select_related("suite", "editing_model").get(pk=runs["noise", K].pk)

    def claim(document: dict[str, Any]) -> None:
        document["chains"][0]["outcome"] = "converged"

    path = bundle_runs.altered(bundle_runs.bundle_of(run, tmp_path), claim, sealed=True)
    with bundles.read(path) as bundle:
        wrong = [c for c in Verification(bundle).checks() if c.verdict == DIFFERENT]
    assert ("chain " + bundle.document.chains[0].name, "repeats itself") in {
        (check.line, check.what) for check in wrong
    }


def test_after_a_rescore_only_chains_with_an_unknown_end_are_played_on(runs):
    run = Run.objects.get(pk=runs["noise", K].pk)
    before = list(Standing.objects.filter(run=run, scope="all").values("threshold", *EXACT))
    jobs.score_again(run)
    assert set(run.chains.values_list("known_at", flat=True)) == {None}
    jobs.score(run.pk)
    assert list(Standing.objects.filter(run=run, scope="all").values("threshold", *EXACT)) == before
    chain = run.chains.filter(known_at__isnull=False).first()
    # As if today's metrics found more of its image than yesterday's.
    Trip.objects.filter(chain=chain, number__gt=1).delete()
    Chain.objects.filter(pk=chain.pk).update(trips_played=1, trips_scored=1, known_at=None)
    standings.rebuild(run)
    assert not run.complete
    assert not Standing.objects.filter(run=run, threshold=0.25).exists()
    run.refresh_from_db()
    assert jobs.play_again(run) == 1
    run = play_to_the_end(run)
    assert run.complete
    chain.refresh_from_db()
    assert (chain.outcome, chain.trips_played) == (Outcome.KNOWN, chain.known_at + K)


def test_reference_editors_play_all_trips_and_other_models_follow_the_suite():
    suite = factories.tiny_suite(1, slug="sayings")
    Suite.objects.filter(pk=suite.pk).update(stop_after=3)
    suite.refresh_from_db()
    paid = jobs.start(factories.editing_model("paid"), suite)
    scale = jobs.start(factories.editing_model("scale", is_reference=True), suite)
    assert (paid.stop_after, scale.stop_after) == (3, 0)
    assert jobs.start(paid.editing_model, suite, stop_after=0).stop_after == 0


def test_an_audit_of_a_trip_that_was_not_played_stays_planned(settings: Any):
    settings.AUDITS = 12
    suite = factories.tiny_suite(3, trips=TRIPS, slug="audited")
    run = play_to_the_end(begin(suite, "jpeg", K, options={"quality": 1}))
    planned = Audit.objects.filter(chain__run=run).select_related("chain")
    for audit in planned:
        reached = audit.number <= audit.chain.trips_played
        assert (audit.outcome == Audit.Outcome.ANSWERED) is reached
    assert any(audit.outcome == Audit.Outcome.ANSWERED for audit in planned)
    assert run.progress.edits_saved == 2 * sum(
        TRIPS - number for number in run.chains.values_list("trips_played", flat=True)
    )
