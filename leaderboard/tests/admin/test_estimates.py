"""The estimate of a run is the same everywhere, before anything is paid for."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command

from leaderboard.admin.runs import RunAdmin
from leaderboard.content.drafts import Preview
from leaderboard.models import Run, Submission
from leaderboard.submissions import status
from leaderboard.testing.factories import editing_model, tiny_suite

pytestmark = pytest.mark.django_db


def test_command_admin_draft_and_submission_give_the_same_estimate():
    from django.contrib.admin import site

    suite = tiny_suite(trips=3)
    model = editing_model(price_per_edit="0.04", max_in_flight=3, calls_per_minute=6)
    out = io.StringIO()
    call_command("start_run", model.slug, suite=suite.slug, stdout=out)
    run = Run.objects.get()
    whole = model.estimate(suite.core.edits, suite.core.chains)
    # The provider's rate decides, which one of two estimates used to forget.
    assert whole.seconds == suite.core.edits * 10
    assert str(whole) in out.getvalue()
    assert RunAdmin(Run, site).cost_estimate(run) == str(whole)
    assert dict(Preview(suite.core).estimates()).get(model) == whole
    assert status.estimate(Submission(suite=suite, editing_model=model)) == whole


def test_a_model_that_was_played_is_judged_by_its_own_pace_and_price():
    suite, model = tiny_suite(), editing_model(price_per_edit=None)
    Run.objects.create(
        editing_model=model, suite=suite, edits_done=10, edit_seconds=25.0, spent_usd="0.50"
    )
    found = model.estimate(100, 100)
    assert found.usd == pytest.approx(5.0)
    assert found.seconds == pytest.approx(100 / model.max_in_flight * 2.5)
