"""Experiments through the workers: one run per arm, and what they say."""

from __future__ import annotations

import pytest

from evaluation import jobs
from evaluation.bundle import format as bundles
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED
from evaluation.bundle.verification import verify
from leaderboard import standings
from leaderboard.board.rows import runs_of
from leaderboard.content import experiments
from leaderboard.exchange import bundle_imports
from leaderboard.models import EditPair, Experiment, ExperimentResult, Run, Trip
from leaderboard.testing import experiments as made
from leaderboard.testing.bundle_runs import altered, bundle_of
from leaderboard.testing.played import once


@pytest.fixture(scope="module")
def wording(django_db_setup, django_db_blocker):
    yield from once(django_db_blocker, lambda: made.played(made.experiment()))


def numbers(experiment: Experiment, metric: str = "ssim") -> dict:
    return ExperimentResult.objects.get(experiment=experiment, metric=metric).numbers


@pytest.mark.django_db
def test_exactly_the_planted_effect_is_found(wording):
    told = numbers(wording)
    assert [effect["arm"] for effect in told["effects"]] == ["plain", "short", "long"]
    assert [effect["sure"] for effect in told["effects"]] == [False, False, True]
    long = told["effects"][2]
    # What it misreads, it does not do: all usable trips of those cases are gone, and no others.
    plain = told["effects"][0]["usable_trips"]
    assert long["difference"] == pytest.approx(long["usable_trips"] - plain)
    times = {
        name: dict(run.chains.values_list("case__pair_slug", "usable_trips"))
        for name, run in made.runs(wording).items()
    }
    turned = [pair for pair in times["long"] if not pair.startswith("replica")]
    assert {times["long"][pair] for pair in turned} == {0.0}
    assert all(times["plain"][pair] == wording.suite.trips for pair in turned)
    kept = [pair for pair in times["long"] if pair.startswith("replica")]
    assert all(times["long"][pair] == times["plain"][pair] for pair in kept)
    assert told["ranks"]["p"] < 0.05


@pytest.mark.django_db
def test_every_arm_is_sent_its_own_words_and_no_other(wording):
    for name, run in made.runs(wording).items():
        pairs = {p.slug: p for p in EditPair.objects.all()}
        for chain in run.chains.select_related("case"):
            pair = pairs[chain.case.pair_slug]
            said = run.core_arm.prompts_of(pair.slug, chain.case.forward, chain.case.backward)
            wanted = next((v["forward"] for v in pair.variants if v["name"] == name), pair.forward)
            assert said[0] == wanted
    notes = Trip.objects.filter(chain__run=made.runs(wording)["long"], number=1)
    assert {trip.edited_notes["understood"] for trip in notes} == {"keep"}


@pytest.mark.django_db
def test_an_arm_never_stands_for_its_model_and_the_default_arm_is_the_suites_own_run(wording):
    runs = made.runs(wording)
    assert [bool(run.arm_digest) for run in runs.values()] == [False, True, True]
    standings.refresh_ranks(wording.suite)
    assert [run.pk for run in runs_of(wording.suite)] == [runs["plain"].pk]
    assert list(Run.objects.filter(current=True)) == [runs["plain"]]
    assert not runs["long"].is_ranked
    assert "arm of an experiment" in Run.objects.get(pk=runs["long"].pk).public_state


@pytest.mark.django_db
def test_a_bundle_of_an_arm_verifies_and_no_longer_does_when_its_words_are_altered(
    wording, tmp_path
):
    path = bundle_of(made.runs(wording)["long"], tmp_path)
    with bundles.read(path) as bundle:
        assert bundle.arm.wording == "long"
        assert not [c for c in verify(bundle) if c.verdict in (DIFFERENT, NOT_CHECKED)]

    def other_words(document):
        prompts = document["run"]["arm"]["prompts"]
        prompts[min(prompts)] = ["Mirror it.", "Mirror it."]

    with bundles.read(altered(path, other_words, sealed=True)) as bundle:
        wrong = {c.what for c in verify(bundle) if c.verdict == DIFFERENT}
    assert wrong == {"forward prompt", "backward prompt"}
    broken = altered(path, lambda d: d["run"]["arm"].update(seeds="my own"), sealed=True)
    with pytest.raises(bundles.BundleError, match=r"run\.arm: seeds is 'my own'"):
        bundles.read(broken)


@pytest.mark.django_db
def test_an_imported_arm_stays_an_arm(wording, tmp_path, settings):
    settings.METRICS = ["psnr", "ssim"]
    path = bundle_of(made.runs(wording)["short"], tmp_path)
    with bundles.read(path) as bundle:
        run = bundle_imports.import_bundle(bundle, model_slug="elsewhere").run
    assert run.core_arm == made.runs(wording)["short"].core_arm
    assert run.verified
    assert not run.current


@pytest.mark.django_db
def test_results_are_written_only_when_every_arm_has_ended_and_again_when_one_is_scored_again(
    wording, settings
):
    settings.METRICS = ["psnr", "ssim"]
    run = made.runs(wording)["long"]
    Run.objects.filter(pk=run.pk).update(state="paused")
    standings.refresh_experiments(run)
    assert not ExperimentResult.objects.exists()
    Run.objects.filter(pk=run.pk).update(state="finished")
    run.refresh_from_db()
    jobs.score_again(run)
    jobs.score(run.pk)
    assert numbers(wording)["effects"][2]["sure"]


@pytest.mark.django_db
def test_metrics_of_two_versions_are_never_compared(wording):
    run = made.runs(wording)["long"]
    run.metrics["ssim"]["version"] = "another"
    run.save()
    standings.refresh_experiments(run)
    assert set(ExperimentResult.objects.values_list("metric", flat=True)) == {"psnr"}


@pytest.mark.django_db
def test_starting_again_starts_nothing_twice(wording):
    before = Run.objects.count()
    assert experiments.start(wording) == []
    assert Run.objects.count() == before
    assert experiments.whole(experiments.plan(wording)).edits == 0
