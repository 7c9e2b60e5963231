"""Upload a run in a browser: the form, the progress of the check, the result, the withdrawal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leaderboard import jobs
from leaderboard.models import ContributedRun, Run
from leaderboard.testing import factories
from leaderboard.testing.browser import PHONE
from leaderboard.testing.shell_runs import shell_bundle

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SIZES = {"images": 2, "trips": 2, "size": 128}


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> Path:
    return shell_bundle(tmp_path_factory.mktemp("shell"), **SIZES)


def keep(seen, name):
    """An image of the page, where somebody wants to look at it."""
    if folder := os.environ.get("SCREENSHOTS"):
        seen.page.screenshot(path=f"{folder}/{name}.png", full_page=True)


@pytest.mark.usefixtures("quick_metrics", "valkey")
def test_a_run_is_uploaded_checked_shown_and_withdrawn(visit, packed):
    factories.tiny_suite(**SIZES)
    seen = visit("/contribute/")
    page = seen.page
    keep(seen, "form")
    assert seen.faults_in_all_looks() == []
    page.set_input_files("input[name=bundle]", packed)
    for name, value in {"name": "Mine & <b>own</b>", "contributed_by": "A Group"}.items():
        page.fill(f"input[name={name}]", value)
    page.fill("input[name=email]", "me@example.org")
    page.click("text=Upload this run")
    page.wait_for_selector("#contribution-bar")
    keep(seen, "waiting")
    assert seen.faults_in_all_looks() == []
    row = ContributedRun.objects.get()
    ContributedRun.objects.update(steps_done=5, steps_total=20)
    page.wait_for_function(
        "() => document.querySelector('#contribution-words').textContent === '5 of 20 lines of the bundle'"
    )
    jobs.check_contributed_run(row.pk)
    page.wait_for_selector("text=See the run")  # by itself
    keep(seen, "shown")
    assert seen.faults_in_all_looks() == []
    page.click("text=See the run")
    page.wait_for_selector("text=contributed by A Group")
    keep(seen, "run")
    seen.open("/")
    seen.settle()
    keep(seen, "board")
    assert "Played elsewhere, numbers checked" in page.content()
    seen.open(row.get_absolute_url())
    page.click("text=Withdraw this run")
    page.wait_for_selector("text=The run is withdrawn")
    keep(seen, "withdrawn")
    assert not Run.objects.get().published


@pytest.mark.usefixtures("quick_metrics", "valkey")
def test_each_reason_of_a_refusal_is_listed(visit):
    row = ContributedRun.objects.create(
        name="Mine",
        contributed_by="A Group",
        state="refused",
        error="image-0--flip, trip 1, ssim: states 0.1, computed 0.2\nrun, secret: " + "x" * 300,
    )
    seen = visit(row.get_absolute_url(), size=PHONE)
    assert seen.page.locator("#contribution li").count() == 2
    keep(seen, "refused")
    assert seen.faults() == []
