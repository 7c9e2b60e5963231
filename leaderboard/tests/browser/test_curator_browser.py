"""A curator in a browser: an image, a pair, a suite; frozen, it stays as it is."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from PIL import Image

from leaderboard.content import loading
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


def add_image(seen: Visit, folder: Path, number: int, title: str) -> None:
    path = folder / f"{number}.png"
    factories.drawn_image(number, 640).save(path)
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


def draw_surface(seen: Visit) -> None:
    """Drag a box over the lower half of the image on the canvas."""
    page = seen.page
    page.select_option(".annotator select", "surface")
    canvas = page.locator(".annotator canvas")
    page.wait_for_function("canvas => canvas.width === 640", arg=canvas.element_handle())
    canvas.scroll_into_view_if_needed()
    edge = canvas.bounding_box()

    def at(x: float, y: float) -> tuple[float, float]:
        return edge["x"] + x * edge["width"], edge["y"] + y * edge["height"]

    page.mouse.move(*at(0.1, 0.5))
    page.mouse.down()
    page.mouse.move(*at(0.5, 0.7), steps=3)
    page.mouse.move(*at(0.9, 0.95))
    page.mouse.up()
    page.get_by_text("Drawn: surface").wait_for()


def add_pair(seen: Visit) -> None:
    """A pair with a place, words that an image must not have, and another wording."""
    page = seen.page
    seen.open("/admin/leaderboard/editpair/add/")
    page.fill("#id_title", "Apple")
    page.select_option("#id_category", "objects")
    page.fill("#id_forward", "Put a red apple on the table.")
    page.fill("#id_backward", "Remove the red apple from the table.")
    page.fill("#id_object", "apple")
    page.select_option("#id_place", "surface")
    page.fill("#id_absent", "apple, fruit")
    page.fill("[name=variants-0-name]", "short")
    page.fill("[name=variants-0-forward]", "Add an apple.")
    page.fill("[name=variants-0-backward]", "Remove the apple.")
    page.select_option("#id_status", "active")
    page.click("[name=_save]")


def test_a_curator_draws_a_place_writes_a_pair_and_freezes_a_suite_that_then_stays(
    curator: Visit, tmp_path: Path
) -> None:
    page = curator.page
    add_image(curator, tmp_path, 1, "A table")
    page.locator(".messagelist .success", has_text="A table").wait_for()
    small = page.locator("#result_list img").element_handle()
    page.wait_for_function("image => image.naturalWidth > 0", arg=small)
    assert SourceImage.objects.get().slug == "a-table"  # made from the title as it was typed
    assert faults(curator) == []

    page.click("#result_list tbody th a")
    draw_surface(curator)
    assert faults(curator) == []
    page.click("[name=_continue]")
    page.locator(".messagelist .success").wait_for()
    (box,) = SourceImage.objects.get().annotations["surface"]
    assert box == pytest.approx([0.1, 0.5, 0.9, 0.95], abs=0.01)
    page.click("text=Remove the last")
    page.get_by_text("There is no face to remove").wait_for()
    page.select_option(".annotator select", "surface")
    page.click("text=Remove the last")
    page.get_by_text("Removed: surface").wait_for()
    assert page.input_value("#id_annotations") == "{}"  # and nothing of it is saved

    flat = tmp_path / "flat.png"
    Image.new("RGB", (640, 640), (200, 10, 10)).save(flat)
    curator.open("/admin/leaderboard/sourceimage/add/")
    page.set_input_files("#id_file", flat)
    page.select_option("#id_kind", "object")
    page.fill("#id_title", "Nothing")
    page.fill("#id_licence", "CC0-1.0")
    page.fill("#id_attribution", "Nobody")
    page.click("[name=_save]")
    page.locator(".errorlist", has_text="nearly one colour").wait_for()
    assert faults(curator) == []

    for number in range(2, 11):
        data = io.BytesIO()
        factories.drawn_image(number, 256).save(data, "PNG")
        loading.add_source_image(
            {"slug": f"shelf-{number}", "title": f"Shelf {number}", "kind": "object"}
            | {"licence": "CC0-1.0", "attribution": "A photographer", "status": "active"}
            | {"annotations": {"surface": [[0.1, 0.4, 0.9, 0.95]]}},
            data.getvalue(),
        )
    add_pair(curator)
    page.locator(".messagelist .success", has_text="Apple").wait_for()
    pair = EditPair.objects.get()
    assert (pair.place, pair.absent) == ("surface", ["apple", "fruit"])
    assert [wording["forward"] for wording in pair.variants] == ["Add an apple."]
    page.click("text=See it")
    page.get_by_text("fits 10 of 10 active").wait_for()
    drawn = page.locator("img[src*=forward]")
    assert drawn.count() == 10
    for place in range(10):
        drawn.nth(place).scroll_into_view_if_needed()
        page.wait_for_function(
            "image => image.naturalWidth > 0", arg=drawn.nth(place).element_handle()
        )
    assert faults(curator) == []

    curator.open("/admin/leaderboard/suite/add/")
    page.fill("#id_title", "My suite")
    page.fill("#id_trips", "3")
    page.fill("#id_size", "256")
    page.fill("#id_cases", "2")
    page.locator(".choices summary").first.click()
    page.check("[name=must_images][value=a-table]")
    page.check("#id_narrow")  # two images and one pair rank nobody, and the suite says so
    assert faults(curator) == []
    page.click("[name=_continue]")
    assert page.get_by_text("View on site").count() == 0
    page.get_by_role("link", name="Preview and freeze").click()
    page.get_by_text("2 cases on 2 images with 1 pair").wait_for()
    page.get_by_text("12 edits").first.wait_for()
    assert page.locator(".sheet li", has_text="A table").count() == 1
    assert page.get_by_text("Freezing publishes").is_visible()
    assert faults(curator) == []
    # A small drawing on a noisy image is not seen once it is saved as a JPEG.
    assert page.locator("#unseen").is_visible()
    page.click("text=of its edits cannot be seen")
    page.click("text=I have checked the cases")
    page.click("text=Freeze and make public")
    page.get_by_text("is frozen and public.").wait_for()
    suite = Suite.objects.get()
    assert suite.is_frozen
    change = page.url

    for name in ("title", "slug", "version", "trips", "size", "cases"):
        assert page.locator(f"[name={name}]").count() == 0
    assert page.get_by_text("Delete").count() == 0
    assert faults(curator) == []
    curator.open(re.sub("change/$", "preview/", change).removeprefix(curator.base))
    assert page.get_by_text("Freeze and make public").count() == 0

    EditPair.objects.update(forward="Put a green apple on the table.")
    curator.open(suite.get_absolute_url())
    assert "Put a red apple on the table." in page.content()
    assert "green apple" not in page.content()
