"""Experiments in the admin: defined, estimated, started, and shown while they are played."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from leaderboard.experiments import plan as experiments
from leaderboard.models import Experiment, Run
from leaderboard.testing import experiments as made


@pytest.fixture
def staff(db, client):
    client.force_login(User.objects.create_superuser("staff"))
    return client


@pytest.mark.django_db
def test_the_page_shows_the_progress_of_an_experiment(client):
    experiment = made.experiment(made.worded_suite(trips=1, pairs=2))
    experiments.start(experiment)
    Run.objects.update(published=True)
    text = client.get(experiment.get_absolute_url()).content.decode()
    assert "Misreader is under way" in text
    assert "0 of 4 edits" in text


@pytest.mark.django_db
def test_the_admin_estimates_an_experiment_before_it_starts(staff):
    suite, model = made.worded_suite(trips=1, pairs=2), made.misreader()
    arms = [{"name": "plain"}, {"name": "long", "wording": "long"}]
    usual = {"wording": "plain", "seeds": "per-edit", "session": "alone", "size": "", "cleanup": ""}
    form = {
        "title": "Does the wording matter?",
        "slug": "wording",
        "suite": suite.pk,
        "editing_models": [model.pk],
        "repeats": 2,
        "published": "on",
        "arms-TOTAL_FORMS": 2,
        "arms-INITIAL_FORMS": 0,
    }
    for number, arm in enumerate(arms):
        for name, value in (usual | {"position": number} | arm).items():
            form[f"arms-{number}-{name}"] = value
    same = staff.post("/admin/leaderboard/experiment/add/", form | {"arms-1-wording": "plain"})
    assert "Two arms are the same" in same.content.decode()
    hot = staff.post("/admin/leaderboard/experiment/add/", form | {"arms-1-temperature": "7"})
    assert "less than or equal to 2" in hot.content.decode()
    assert staff.post("/admin/leaderboard/experiment/add/", form).status_code == 302
    experiment = Experiment.objects.get()
    address = reverse("admin:leaderboard_experiment_start", args=[experiment.pk])
    page = staff.get(address).content.decode()
    assert "long wording" in page
    assert "Total, one after another" in page
    assert not Run.objects.exists()
    assert staff.post(address, {"budget_usd": "nonsense"}).status_code == 200
    assert not Run.objects.exists()
    assert staff.post(address, {"budget_usd": "5"}).status_code == 302
    assert Run.objects.count() == 2
    experiment.refresh_from_db()
    change = f"/admin/leaderboard/experiment/{experiment.pk}/change/"
    assert "Start the missing runs" in staff.get(change).content.decode()
    staff.post(change, form | {"repeats": 5, "title": "Another question"})
    experiment.refresh_from_db()
    assert (experiment.repeats, experiment.arms.count()) == (2, 2)
    assert "arms-0-wording" not in staff.get(change).content.decode()


@pytest.mark.django_db
def test_an_arm_that_the_model_cannot_play_is_refused_in_the_admin(staff):
    suite = made.worded_suite(trips=1, pairs=2)
    experiment = made.experiment(suite, arms={"plain": {}, "hot": {"temperature": 1.5}})
    answer = staff.get(
        reverse("admin:leaderboard_experiment_start", args=[experiment.pk]), follow=True
    )
    assert "has no temperature setting" in answer.content.decode()
    assert not Run.objects.exists()
