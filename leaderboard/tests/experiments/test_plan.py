"""Experiments: started, resumed and refused."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from evaluation.arms import FIDELITY, Arm
from evaluation.errors import UserFacingError
from leaderboard import jobs
from leaderboard.experiments import plan as experiments
from leaderboard.models import Chain, EditPair, Experiment, ExperimentResult, Run, RunProgress, Trip
from leaderboard.testing import experiments as made
from leaderboard.testing import factories


@pytest.mark.django_db
def test_reruns_are_played_and_their_spread_is_reported(settings):
    settings.METRICS = ["ssim"]
    suite = made.worded_suite(trips=1, pairs=3)
    arms = {"each": {}, "fixed": {"seeds": "fixed"}, "none": {"seeds": "none"}}
    experiment = made.played(made.experiment(suite, arms=arms, repeats=2))
    runs = made.runs(experiment)
    assert {run.progress.chains_total for run in runs.values()} == {6}
    assert all(run.arm_digest for run in runs.values())  # twice is not how the suite is played
    result = ExperimentResult.objects.get(experiment=experiment).numbers
    assert result["reruns"]["each"]["repeats"] == 2
    assert result["reruns"]["each"]["rerun"] is not None
    assert not result["enough"]
    seeds = {
        name: Trip.objects.filter(chain__run=run).values_list("edited_seed", "restored_seed")
        for name, run in runs.items()
    }
    assert set(seeds["none"]) == {(None, None)}
    assert all(one == two for one, two in seeds["fixed"])
    assert not any(one == two for one, two in seeds["each"])


@pytest.mark.django_db
def test_a_resumed_run_keeps_its_arm(settings):
    settings.METRICS = ["ssim"]
    suite = made.worded_suite(trips=2, pairs=2)
    arms = {"plain": {}, "clean": {"cleanup": "denoise", "fidelity": True, "size": "512"}}
    experiment = made.experiment(suite, arms=arms)
    runs = {run.core_arm.cleanup: run for run in experiments.start(experiment)}
    run = runs["denoise"]
    jobs.play(run.pk)
    trips = Trip.objects.filter(chain__run=run).order_by("chain", "number")
    first = list(trips.values_list("chain", "number", "restored"))
    assert {trip.edited.width for trip in Trip.objects.filter(chain__run=run)} == {512}
    said = run.core_arm.prompts.values()
    assert all(prompt.endswith(FIDELITY) for both in said for prompt in both)
    # From the middle of a trip: the same images again, since filter and seeds are the same.
    Trip.objects.filter(chain__run=run, number=2).update(restored=None)
    Chain.objects.filter(run=run).update(state="waiting", outcome="", trips_played=1)
    Run.objects.filter(pk=run.pk).update(state="queued")
    RunProgress.objects.filter(pk=run.pk).update(budget_calls=None)
    jobs.play(run.pk)
    again = list(trips.values_list("chain", "number", "restored"))
    assert again == first
    run.refresh_from_db()
    run.arm["cleanup_version"] = "another filter"
    Chain.objects.filter(run=run).update(state="waiting", outcome="", trips_played=1)
    Run.objects.filter(pk=run.pk).update(state="queued", arm=run.arm)
    jobs.play(run.pk)
    run = Run.objects.get(pk=run.pk)
    assert run.state == "paused"
    assert "began with another filter" in run.reason_text


@pytest.mark.django_db
def test_settings_a_model_lacks_are_reported_before_anything_starts():
    suite = made.worded_suite(trips=1, pairs=2)
    cases = {
        "has no temperature setting": {"temperature": 0.4},
        "has no conversations": {"session": "conversation"},
    }
    for number, (words, settings) in enumerate(cases.items()):
        experiment = made.experiment(
            suite,
            slug=f"e{number}",
            models=[made.misreader(f"m{number}")],
            arms={"plain": {}, "other": settings},
        )
        with pytest.raises(UserFacingError, match=words):
            experiments.start(experiment)
    EditPair.objects.update(variants=[])
    wordless = made.experiment(suite, slug="wordless", models=[made.misreader("w")])
    with pytest.raises(UserFacingError, match="has no short wording"):
        experiments.start(wordless)
    assert not Run.objects.exists()


@pytest.mark.django_db
def test_a_sealed_suite_cannot_be_used_in_an_experiment():
    suite = made.worded_suite(trips=1, pairs=2)
    experiment = made.experiment(suite)
    type(suite).objects.filter(pk=suite.pk).update(sealed=True)
    experiment = Experiment.objects.get(pk=experiment.pk)
    with pytest.raises(ValidationError):
        experiment.full_clean()
    with pytest.raises(UserFacingError, match="cannot be played"):
        experiments.start(experiment)
    with pytest.raises(jobs.NotAllowed, match="sealed"):
        jobs.start(factories.editing_model(), experiment.suite, arm=Arm(seeds="none"))
    assert not Experiment.objects.public().exists()


@pytest.mark.django_db
def test_the_command_reads_a_file_and_prints_its_estimate(tmp_path):
    made.worded_suite(trips=1, pairs=2)
    made.misreader()
    file = tmp_path / "wording.yaml"
    file.write_text(
        "title: Does the wording matter?\nsuite: worded\nmodels: [misreader]\n"
        "arms: {plain: {}, SF: {wording: SF}, tiers: {size: interleaved}}\n"
    )
    out = StringIO()
    call_command("start_experiment", str(file), "--estimate", stdout=out)
    assert "In total: 12 edits" in out.getvalue()
    assert not Experiment.objects.exists()
    call_command("start_experiment", str(file), "--publish", "--budget-usd", "3", stdout=out)
    experiment = Experiment.objects.get(slug="wording")
    assert experiment.published
    assert experiment.started_at
    assert [arm.core.sizes for arm in experiment.arms.all()] == [(), (), ("1K", "2K", "4K")]
    assert sum(run.progress.budget_usd for run in Run.objects.all()) == 3
    with pytest.raises(CommandError, match="an experiment wording already exists"):
        call_command("start_experiment", str(file))
    file.write_text(file.read_text() + "trips: 1\n")
    with pytest.raises(CommandError, match="work only with `convergebench experiment`"):
        call_command("start_experiment", str(file))
