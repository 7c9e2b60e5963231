"""Scoring follows playing, never mixes metric versions, and ends with standings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from evaluation.measuring.scoring import Scorer
from evaluation.metrics import METRICS
from evaluation.metrics.psnr import Psnr
from evaluation.play import score as score_loop
from evaluation.play.score import score_chains
from evaluation.testing.editing_server import EditingServer
from evaluation.witnesses import DEFAULT_WITNESSES, REFERENCE_EDITOR_WITNESSES, witness_class
from leaderboard import jobs
from leaderboard.jobs import database_scores, score_job
from leaderboard.jobs.database_scores import DatabaseScores
from leaderboard.jobs.score_job import ScoreJob
from leaderboard.models import Calibration, Chain, MetricVersion, Run, Score, Standing, Trip
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.served_runs import played, scored, served, started

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick"), pytest.mark.both_databases]


class Psnr2(Psnr):
    """The same metric after its code changed."""

    version = "2"


@pytest.fixture
def change_psnr(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Replace the code of the metric from now on."""
    return lambda: monkeypatch.setitem(METRICS, "psnr", f"{__name__}:Psnr2")


def numbers() -> list[tuple[Any, ...]]:
    return list(
        Score.objects.order_by("trip", "metric").values_list(
            "trip__chain", "trip__number", "metric__name", "metric__version", "distance"
        )
    )


def test_a_played_run_is_scored_and_finished(server: EditingServer) -> None:
    run = scored(played(started(server)))
    assert run.state == RunState.FINISHED
    assert Score.objects.count() == 12 * 2
    assert run.progress.trips_scored == 12
    assert Calibration.objects.count() == 2 * 2  # per image and metric, not per chain
    assert Standing.objects.filter(run=run, scope="all").exists()
    assert run.metrics["psnr"] == {"version": Psnr.version, "weights_sha256": ""}
    assert run.provenance["scoring"]["packages"]["numpy"]
    trip = Trip.objects.filter(number=2).first()
    assert trip
    assert trip.change_seen is True
    assert 0 < trip.step < trip.from_source * 2 < 1  # type: ignore[operator]


def test_a_run_is_judged_by_the_witnesses_in_the_workers_settings(
    server: EditingServer, settings: Any
) -> None:
    settings.WITNESSES = ["geometry"]
    run = played(started(server))
    assert ScoreJob(run, uuid4()).scorer.panel.provenance().keys() == {"geometry"}
    settings.WITNESSES = []  # what it was begun with stays
    run = scored(run)
    assert run.provenance["scoring"]["witnesses"].keys() == {"geometry"}
    heard = {one["witness"] for trip in Trip.objects.all() for one in trip.evidence}
    assert heard == {"geometry"}


def test_reference_editors_are_judged_only_by_witnesses_that_decide(
    server: EditingServer, settings: Any
) -> None:
    settings.WITNESSES = []  # all that can run here
    suite = factories.tiny_suite(images=1, trips=1)
    heard = {}
    for name in ("reference", "model"):
        model = factories.editing_model(name, editor="jpeg", is_reference=name == "reference")
        run = played(jobs.start(model, suite))
        heard[name] = ScoreJob(run, uuid4()).scorer.panel.witnesses.keys()
    assert heard["reference"] == heard["model"] & set(REFERENCE_EDITOR_WITNESSES)
    assert {"geometry", "hue"} <= heard["reference"]
    assert heard["model"] - heard["reference"]
    gating = {name for name in DEFAULT_WITNESSES if witness_class(name).gates}
    assert gating <= set(REFERENCE_EDITOR_WITNESSES)


def test_runs_of_submitted_models_wait_for_review_and_references_do_not(
    server: EditingServer, settings: Any
) -> None:
    suite = factories.tiny_suite(images=1, trips=1)
    models = {
        name: factories.editing_model(name, editor="jpeg", is_reference=name == "reference")
        for name in ("stranger", "reference", "at-once")
    }
    published = {}
    for name, model in models.items():
        settings.PUBLISH_AT_ONCE = name == "at-once"
        published[name] = scored(played(jobs.start(model, suite))).published
    assert published == {"stranger": False, "reference": True, "at-once": True}


def test_scoring_again_changes_nothing(server: EditingServer) -> None:
    run = scored(played(started(server)))
    before = numbers()
    scored(run)
    jobs.score_again(run)
    assert scored(run).state == RunState.FINISHED
    assert numbers() == before


def test_trips_are_scored_while_the_run_still_plays(server: EditingServer) -> None:
    run = played(started(server, budget_calls=13))
    Run.objects.update(state=RunState.PLAYING)
    trips = Trip.objects.filter(restored__isnull=False).count()
    assert trips
    ScoreJob(run, uuid4()).score_played()
    assert Trip.objects.filter(scored_at__isnull=False).count() == trips
    run.refresh_from_db()
    assert run.state == RunState.PLAYING


def test_a_scoring_job_that_lost_its_lease_writes_nothing(server: EditingServer) -> None:
    run = played(started(server))
    old, new = ScoreJob(run, uuid4()), uuid4()
    (chain, *_) = Chain.objects.claim_scores(run, old.token, 4)
    Chain.objects.update(score_lease_until=timezone.now() - timedelta(seconds=1))
    assert len(Chain.objects.claim_scores(run, new, 4)) == 4
    score_chains(old.store, old.scorer, [old.store.played_trips(chain)])
    assert not Score.objects.exists()
    assert not Trip.objects.filter(scored_at__isnull=False).exists()


def test_two_score_jobs_on_one_run_score_no_chain_twice(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(started(server))
    monkeypatch.setattr(database_scores, "CHAINS_AT_ONCE", 2)
    one, other = ScoreJob(run, uuid4()), ScoreJob(run, uuid4())
    taken: list[tuple[Any, str]] = []

    def score_beside(store: Any, scorer: Any, chains: Any) -> None:
        taken.extend((store, chain.slug) for chain in chains)
        if store is one.store and len(taken) == 2:
            other.score_played()  # while the first has its chains in hand
        score_chains(store, scorer, chains)

    monkeypatch.setattr(score_loop, "score_chains", score_beside)
    one.score_played()
    assert [store for store, _ in taken] == [one.store, one.store, other.store, other.store]
    assert len({chain for _, chain in taken}) == 4
    assert Score.objects.count() == 12 * 2
    run.refresh_from_db()
    assert run.progress.trips_scored == 12


def test_chains_stay_with_their_score_job_during_a_long_batch(
    server: EditingServer,
) -> None:
    run = played(started(server))
    job = ScoreJob(run, uuid4())
    assert len(Chain.objects.claim_scores(run, job.token, 9)) == 4
    Chain.objects.update(score_lease_until=timezone.now() - timedelta(seconds=1))
    job.store.renew()
    assert Chain.objects.claim_scores(run, uuid4(), 9) == []


def test_a_run_lists_every_device_that_scored_it(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(started(server))
    job = ScoreJob(run, uuid4())
    (chain,) = Chain.objects.claim_scores(run, job.token, 1)
    score_chains(job.store, job.scorer, [job.store.played_trips(chain)])
    Chain.objects.release_scores(job.token)
    monkeypatch.setattr(Scorer, "_device", lambda self, name: "cuda")
    assert scored(run).provenance["scoring"]["devices"] == ["cpu float32", "cuda float32"]


def test_after_a_kill_between_batches_the_next_job_continues_from_the_scores(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(started(server))
    undisturbed = scored(played(jobs.start(run.editing_model, run.suite, secret=run.secret)))
    monkeypatch.setattr(score_loop, "TRIPS_PIXELS", 1)  # one trip at a time

    class Killed(BaseException):
        """An exception that no handler catches, as after a kill."""

    write, count = DatabaseScores._write, iter(range(100))

    def killed(self: DatabaseScores, *args: Any) -> None:
        if next(count) % 3 == 2:
            raise Killed
        write(self, *args)

    monkeypatch.setattr(DatabaseScores, "_write", killed)
    kills = 0
    while run.state != RunState.FINISHED:
        try:
            scored(run)
        except Killed:
            kills += 1
            Chain.objects.update(score_lease_until=None)
    assert kills >= 4

    def result(run: Run) -> list[Any]:
        rows = Score.objects.filter(trip__chain__run=run)
        names = ("trip__chain__case", "trip__number", "metric__name")
        return list(rows.order_by(*names).values_list(*names, "distance"))

    assert result(run) == result(undisturbed)
    assert run.progress.trips_scored == 12


def test_a_metric_that_changes_during_a_run_pauses_it(
    server: EditingServer, change_psnr: Callable[[], None]
) -> None:
    run = played(started(server))
    job = ScoreJob(run, uuid4())
    (chain,) = Chain.objects.claim_scores(run, job.token, 1)
    score_chains(job.store, job.scorer, [job.store.played_trips(chain)])
    Chain.objects.release_scores(job.token)
    change_psnr()
    scored(run)
    assert (run.state, run.reason) == (RunState.PAUSED, "metric_version")
    assert "psnr" in run.reason_text
    assert set(Score.objects.values_list("metric__version", flat=True)) == {"1"}


def test_a_metric_that_becomes_unavailable_during_a_run_pauses_it(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(started(server))
    job = ScoreJob(run, uuid4())
    (chain,) = Chain.objects.claim_scores(run, job.token, 1)
    score_chains(job.store, job.scorer, [job.store.played_trips(chain)])
    Chain.objects.release_scores(job.token)
    monkeypatch.setattr(Psnr, "missing", lambda self: ["the weights are gone"])
    scored(run)
    assert (run.state, run.reason) == (RunState.PAUSED, "metric_version")
    assert "the weights are gone" in run.reason_text


def test_a_rescore_keeps_the_old_scores_and_shows_the_new_ones(
    server: EditingServer, change_psnr: Callable[[], None]
) -> None:
    run = scored(played(started(server)))
    before = numbers()
    change_psnr()
    jobs.score_again(run)
    assert scored(run).state == RunState.FINISHED
    after = numbers()
    assert set(before) < set(after)
    assert {row[3] for row in set(after) - set(before)} == {"2"}  # SSIM was not computed again
    assert run.metrics["psnr"]["version"] == "2"
    shown = set(run.standings.values_list("metric__name", "metric__version"))
    assert shown == {("psnr", "2"), ("ssim", "1")}


def test_a_metric_that_cannot_run_here_is_missing_with_its_reason_and_never_zero(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Psnr, "missing", lambda self: ["no weights here"])
    run = scored(played(started(server)))
    assert run.state == RunState.FINISHED
    assert run.metrics["psnr"] == {"missing": "no weights here"}
    assert not MetricVersion.objects.filter(name="psnr").exists()
    assert set(Score.objects.values_list("metric__name", flat=True)) == {"ssim"}


def test_an_error_in_scoring_pauses_the_run_with_its_message(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> None:
        raise ValueError("the image has no pixels")

    monkeypatch.setattr(score_loop, "measure_trip", broken)
    run = scored(played(started(server)))
    assert (run.state, run.reason) == (RunState.PAUSED, "internal")
    assert "the image has no pixels" in run.reason_text
    monkeypatch.undo()


def test_an_error_in_the_standings_pauses_the_run_and_a_resume_finishes_it(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: Run) -> None:
        raise ArithmeticError("no sum")

    run = played(started(server))
    with monkeypatch.context() as patch:
        patch.setattr(score_job.standings, "rebuild", broken)
        scored(run)
    assert (run.state, run.reason) == (RunState.PAUSED, "internal")
    jobs.resume(run)
    assert scored(played(run)).state == RunState.FINISHED


def test_a_run_whose_chains_all_failed_still_finishes(server: EditingServer) -> None:
    server.instead = lambda call: (
        400,
        {"Content-Type": "application/json"},
        b'{"error": {"code": "content_policy_violation", "message": "no"}}',
    )
    run = scored(played(started(server)))
    assert run.state == RunState.FINISHED
    assert set(run.chains.values_list("outcome", flat=True)) == {"refused"}
    nothing = run.standings.filter(scope="all", threshold=0.5).values_list(
        "half_life", "usable_trips"
    )
    assert list(nothing) == [(0, 0), (0, 0)]
    assert Calibration.objects.count() == 4


def test_global_edits_are_judged_by_the_models_own_drift(server: EditingServer) -> None:
    """A style edit counts only if it changes more than the model's edit without a change."""
    style = factories.EditPair(
        slug="style",
        category="style",
        forward="Mirror it as a style.",
        backward="Mirror it as a style.",
        change="global",
    )
    suite = factories.tiny_suite(images=1, pairs=(factories.REPLICA, style))
    run = jobs.start(served(server), suite)
    server.edit = lambda image, prompt, seed: (
        image if "replica" in prompt else server_turn(image, prompt, seed)
    )
    scored(played(run))
    judged = dict(
        Trip.objects.filter(number=1).values_list("chain__case__pair_slug", "change_seen")
    )
    assert judged == {"replica": None, "style": True}


def test_a_missing_image_ends_its_chain_but_not_the_run(server: EditingServer) -> None:
    run = played(started(server))
    trip = Trip.objects.filter(number=2).first()
    assert trip
    assert trip.restored
    default_storage.delete(trip.restored.name)
    scored(run)
    assert run.state == RunState.FINISHED
    assert sorted(run.chains.values_list("outcome", "trips_played")) == [
        ("completed", 3),
        ("completed", 3),
        ("completed", 3),
        ("lost", 0),
    ]


def server_turn(image: bytes, prompt: str, seed: int) -> bytes:
    from evaluation.testing.editing_server import noisy_turn

    return noisy_turn(image, prompt, seed)
