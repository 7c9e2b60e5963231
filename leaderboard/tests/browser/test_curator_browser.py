"""A curator in a browser: a picture, a pair, a suite; frozen, it stays as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from PIL import Image

from leaderboard.models import EditPair, SourceImage, Suite
from leaderboard.testing import factories
from leaderboard.testing.browser import Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
PATIENCE = 60_000


@pytest.fixture
def curator(visit: Any) -> Visit:
    """Signed in as a curator: no superuser, only the rights of that role."""
    user = User.objects.create_user("ada", password="a long password", is_staff=True)
    user.groups.add(Group.objects.get(name="curator"))
    seen = visit("/admin/")
    seen.page.set_default_timeout(PATIENCE)
    seen.page.fill("#id_username", "ada")
    seen.page.fill("#id_password", "a long password")
    seen.page.click("text=Log in")
    seen.page.get_by_text("Runs and workers").wait_for()
    return seen


def faults(seen: Visit) -> list[str]:
    """What is new, but for the movement of Django's own side bar while its script runs."""
    found = [fault for fault in seen.faults() if "layout" not in fault]
    seen.complaints.clear()  # the checker's own: the policy stops it from styling a form too
    return found


def add_picture(seen: Visit, folder: Path, number: int, title: str) -> None:
    path = folder / f"{number}.png"
    factories.picture(number, 640).save(path)
    page = seen.page
    seen.open("/admin/leaderboard/sourceimage/add/")
    page.set_input_files("#id_file", path)
    page.fill("#id_title", title)
    page.select_option("#id_kind", "object")
    page.select_option("#id_made", "real")
    page.fill("#id_licence", "CC0-1.0")
    page.fill("#id_attribution", "A photographer")
    page.select_option("#id_status", "active")
    page.click("[name=_save]")


def add_pair(seen: Visit) -> None:
    page = seen.page
    seen.open("/admin/leaderboard/editpair/add/")
    page.fill("#id_title", "Red ball")
    page.select_option("#id_category", "objects")
    page.fill("#id_forward", "Add a red ball in the foreground.")
    page.fill("#id_backward", "Remove the red ball in the foreground.")
    page.fill("#id_object", "red ball")
    page.select_option("#id_status", "active")
    page.click("[name=_save]")


def test_a_curator_adds_a_picture_and_a_pair_and_freezes_a_suite_that_then_stays(
    curator: Visit, tmp_path: Path
) -> None:
    page = curator.page
    add_picture(curator, tmp_path, 1, "A table")
    page.locator(".messagelist .success", has_text="A table").wait_for()
    small = page.locator("#result_list img").element_handle()
    page.wait_for_function("image => image.naturalWidth > 0", arg=small)
    assert SourceImage.objects.get().slug == "a-table"  # made from the title as it was typed
    assert faults(curator) == []

    flat = tmp_path / "flat.png"
    Image.new("RGB", (640, 640), (200, 10, 10)).save(flat)
    curator.open("/admin/leaderboard/sourceimage/add/")
    page.set_input_files("#id_file", flat)
    page.fill("#id_title", "Nothing")
    page.fill("#id_licence", "CC0-1.0")
    page.fill("#id_attribution", "Nobody")
    page.click("[name=_save]")
    page.locator(".errorlist", has_text="nearly one colour").wait_for()
    assert faults(curator) == []
    add_picture(curator, tmp_path, 2, "A shelf")

    add_pair(curator)
    page.locator(".messagelist .success", has_text="Red ball").wait_for()
    page.click("#result_list tbody th a")
    page.click("text=Which pictures fit")
    page.get_by_text("fits 2 of 2 active").wait_for()
    shown = page.locator("img[src*=forward]").first
    shown.scroll_into_view_if_needed()
    page.wait_for_function("image => image.naturalWidth > 0", arg=shown.element_handle())
    assert faults(curator) == []

    curator.open("/admin/leaderboard/suite/add/")
    page.fill("#id_title", "My suite")
    page.fill("#id_trips", "3")
    page.fill("#id_size", "256")
    page.fill("#id_cases", "2")
    page.check("#id_narrow")  # two pictures and one pair rank nobody, and the suite says so
    page.click("[name=_continue]")
    page.click("text=What this draft would become")
    page.get_by_text("2 cases on 2 pictures with 1 pairs").wait_for()
    page.get_by_text("12 edits").first.wait_for()
    assert faults(curator) == []
    page.click("text=Freeze this suite")
    page.get_by_text("is frozen:").wait_for()
    suite = Suite.objects.get()
    assert suite.is_frozen
    change = page.url

    for name in ("title", "slug", "version", "trips", "size", "cases"):
        assert page.locator(f"[name={name}]").count() == 0
    assert page.get_by_text("Delete").count() == 0
    assert faults(curator) == []
    curator.open(re.sub("change/$", "preview/", change).removeprefix(curator.base))
    assert page.get_by_text("Freeze this suite").count() == 0

    EditPair.objects.update(forward="Add a green ball.")
    curator.open(suite.get_absolute_url())
    assert "Add a red ball in the foreground." in page.content()
    assert "green ball" not in page.content()
