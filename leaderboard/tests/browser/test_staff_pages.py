"""Pages that come with libraries live under the same Content Security Policy as our own."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from leaderboard.testing import factories
from leaderboard.testing.browser import WIDE
from leaderboard.testing.played import play

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def staff(visit, client, settings, quick_metrics, live_server):
    """A page of somebody who may see everything."""
    play("noise", factories.tiny_suite(images=1, trips=1, size=64))
    client.force_login(User.objects.create_superuser("root", password="a long password"))
    seen = visit("/livez", size=WIDE)
    seen.page.context.add_cookies(
        [
            {
                "name": settings.SESSION_COOKIE_NAME,
                "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
                "url": live_server.url,
            }
        ]
    )
    return seen


def complaints(seen):
    """What the browser said of the page, and what the policy stopped on it."""
    seen.settle()
    said = seen.complaints + seen.page.evaluate("window.violations")
    seen.complaints.clear()
    return said


def faults(seen):
    """Complaints, and what axe says of the page."""
    seen.settle()
    found = [fault for fault in seen.faults() if "layout" not in fault]  # by Django's own scripts
    seen.complaints.clear()  # the checker's own: the policy stops it from styling a form too
    return found


def test_a_run_is_started_only_after_its_price_was_seen_and_today_shows_it(staff):
    page = staff.page
    staff.open("/admin/leaderboard/run/add/")
    page.select_option("#id_editing_model", label="Noise")
    page.select_option("#id_suite", index=1)
    page.click("[name=_save]")
    page.get_by_text("Nothing has been started yet").wait_for()
    assert int(page.input_value("#id_budget_calls")) > 0
    assert faults(staff) == []
    page.click("text=Start the run")
    page.locator(".messagelist .success").wait_for()
    staff.open("/admin/")
    page.click("text=Today: what needs attention")
    page.locator(".today progress").wait_for()
    assert faults(staff) == []


def test_the_queues_are_shown_without_a_complaint(staff, valkey):
    staff.open("/admin/queues/")
    assert staff.page.get_by_role("link", name="edits").is_visible()
    assert complaints(staff) == []
    for address in ("queues/0/", "queues/0/finished/", "workers/0/"):
        staff.open(f"/admin/queues/{address}")
        assert complaints(staff) == [], address
