"""Changed answers of a hosted model are detected, and noise is not reported as a change."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from leaderboard.jobs import canaries
from leaderboard.models import EditingModel, Run, Use
from leaderboard.standings import changes
from leaderboard.testing.factories import editing_model, tiny_suite
from leaderboard.testing.losing_runs import losing_run, losing_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def ticked() -> EditingModel:
    return editing_model("hosted", "noop", canary=True, price_per_edit="0.01")


def test_a_canary_model_is_played_every_week_within_a_budget(ticked):
    suite = tiny_suite(slug=changes.SUITE)
    editing_model("other", "noop")
    canaries.start_due()
    canaries.start_due()
    run = Run.objects.get()
    assert (run.editing_model, run.suite) == (ticked, suite)
    assert run.progress.budget_usd == pytest.approx(
        Decimal("1.1") * Decimal(ticked.estimate_on(suite).usd), abs=Decimal("0.01")
    )
    assert not run.published  # nothing of this model is public
    week_ago = timezone.now() - canaries.EVERY - timedelta(minutes=1)
    Run.objects.update(created_at=week_ago)
    Use.objects.update(since=week_ago)
    canaries.start_due()
    assert Run.objects.count() == 2


def two_runs(first: float, second: float) -> EditingModel:
    """Create a model with two runs, whose images lose `first` and `second` at each trip."""
    suite = losing_suite()
    type(suite).objects.filter(pk=suite.pk).update(slug=changes.SUITE)
    before, after = losing_run(suite, "hosted", first), losing_run(suite, "again", second)
    day = timedelta(days=1)
    Run.objects.filter(pk=before.pk).update(finished_at=timezone.now() - 7 * day)
    Run.objects.filter(pk=after.pk).update(editing_model=before.editing_model)
    EditingModel.objects.update(canary=True)
    return EditingModel.objects.get(pk=before.editing_model.pk)


def test_changed_answers_are_shown_in_the_admin_and_on_the_models_page(
    admin_client, client, mailoutbox, settings
):
    settings.ADMINS = [("admin", "admin@example.org")]
    model = two_runs(0.05, 0.2)
    change = changes.last_change(model)
    assert change is not None
    assert change.changed
    week_ago = timezone.now() - timedelta(days=7)
    dates = f"between {week_ago:%-d %B %Y} and {timezone.now():%-d %B %Y}"
    assert f"Answers changed {dates}: usable trips (" in change.sentence
    assert " differ by -" in change.sentence
    for page in (model.get_absolute_url(), reverse("admin:leaderboard_run_today")):
        assert f"Answers changed {dates}" in admin_client.get(page).content.decode()
    canaries.mail_change(change.after)
    assert "Answers changed" in mailoutbox[0].body
    Run.objects.filter(pk=change.before.pk).update(published=False)
    client.logout()
    assert "Answers changed" not in client.get(model.get_absolute_url()).content.decode()


def test_repeats_of_the_same_model_are_no_change(mailoutbox):
    change = changes.last_change(model := two_runs(0.1, 0.1))
    assert change is not None
    assert change.changed is False
    assert "No change was detected between" in change.sentence
    canaries.mail_change(change.after)
    assert not mailoutbox
    Run.objects.filter(editing_model=model).order_by("pk")[0].delete()
    assert changes.last_change(model) is None


def test_an_incomplete_run_cannot_be_compared():
    model = two_runs(0.05, 0.2)
    Run.objects.filter(pk=changes.last_change(model).after.pk).update(complete=False)
    change = changes.last_change(model)
    assert change.changed is None
    assert change.sentence.startswith("We cannot compare answers between ")
    assert change.sentence.endswith(": one of the runs is not complete.")
