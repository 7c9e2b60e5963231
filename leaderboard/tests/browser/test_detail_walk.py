from __future__ import annotations

import re

import pytest
from django.urls import reverse

from leaderboard.models import Run, RunProgress
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.browser import PHONE, WIDE
from leaderboard.testing.played import play

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: The mean brightness of each channel of the viewer's image, and a hash of all of it.
LOOK = """(view) => {
  const canvas = document.querySelector(`[data-view="${view}"]`);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let hash = 0, light = 0;
  for (let i = 0; i < data.length; i += 4) {
    light += data[i] + data[i + 1] + data[i + 2];
    hash = (hash * 31 + data[i] * 65536 + data[i + 1] * 256 + data[i + 2]) % 2147483647;
  }
  return { hash, light: light / data.length };
}"""


@pytest.fixture
def run(quick_metrics):
    suite = factories.tiny_suite(images=1, trips=5, size=128)
    return play("thumbnail", suite, name="Thumbnails & <b>more</b>")


@pytest.fixture
def strip(run):
    return reverse("run_case", args=[run.pk, run.suite.cases.first().pk])


def look(page, view="main"):
    """What the viewer shows, once it shows images in full size."""
    page.wait_for_selector("#viewer[data-full]")
    return page.evaluate(LOOK, view)


def pressed(page, mode):
    return page.get_attribute(f'[data-mode="{mode}"]', "aria-pressed") == "true"


def test_from_the_model_to_a_case_through_its_trips(run, visit):
    seen = visit(run.editing_model.get_absolute_url())
    page = seen.page
    assert page.locator("h1").text_content() == "Thumbnails & <b>more</b>"
    seen.see_chart()
    assert seen.faults_in_all_looks() == []

    page.locator(".strips a").first.click()
    page.wait_for_url(re.compile(r"/runs/\d+/cases/\d+/"))
    assert seen.faults_in_all_looks() == []
    page.locator("#trip").focus()
    last = look(page)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('[data-say=trip]').textContent === '4'")
    assert look(page)["hash"] != last["hash"]
    for key, mode in zip("wfdze", ("wipe", "flicker", "difference", "zoom", "edited"), strict=True):
        page.keyboard.press(key)
        assert pressed(page, mode), mode
        seen.settle()
    assert not pressed(page, "wipe")
    assert not pressed(page, "flicker")
    assert seen.faults() == []


def test_keys_walk_the_trips_stop_at_the_ends_and_can_be_turned_off(strip, visit):
    seen = visit(strip)
    page = seen.page
    page.locator("h1").click()
    for _ in range(7):
        page.keyboard.press("ArrowLeft")
    assert page.text_content('[data-say="trip"]') == "0"
    assert "The source itself" in page.text_content('[data-say="main"]')
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    assert page.text_content('[data-say="trip"]') == "5"

    # Keys do nothing in fields, and can be turned off.
    page.locator("#metric").focus()
    page.keyboard.press("w")
    assert not pressed(page, "wipe")
    page.uncheck("#keys")
    page.locator("h1").click()
    page.keyboard.press("w")
    page.keyboard.press("ArrowLeft")
    assert not pressed(page, "wipe")
    assert page.text_content('[data-say="trip"]') == "5"

    seen.open("/livez")
    seen.open(f"{strip}#trip-2")
    assert page.text_content('[data-say="trip"]') == "2"
    assert "After 2 round trips" in page.text_content('[data-say="main"]')


def test_the_difference_of_the_source_to_itself_is_black_and_grows_with_the_trips(strip, visit):
    seen = visit(strip)
    page = seen.page
    page.locator("h1").click()
    page.keyboard.press("d")
    worn = look(page)["light"]
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    assert look(page)["light"] < 3
    assert worn > 20
    assert seen.faults() == []


def test_a_wipe_to_the_right_edge_is_the_source(strip, visit):
    seen = visit(strip)
    page = seen.page
    page.locator("#trip").focus()
    source = trip_zero(page)
    page.keyboard.press("End")
    page.keyboard.press("w")
    page.locator("#wipe").fill("0")
    returned = look(page)["light"]
    page.locator("#wipe").fill("100")
    assert abs(look(page)["light"] - source["light"]) < 2
    box = page.locator('[data-view="main"]').bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 1, box["y"] + 20)
    page.mouse.up()
    assert int(page.input_value("#wipe")) <= 2
    assert abs(look(page)["light"] - returned) < 2


def trip_zero(page):
    page.keyboard.press("Home")
    page.wait_for_function("() => document.querySelector('[data-say=trip]').textContent === '0'")
    return look(page)


def test_flicker_shows_the_source_and_the_return_in_turn(strip, visit):
    seen = visit(strip)
    page = seen.page
    page.locator("#trip").focus()
    look(page)
    page.keyboard.press("f")
    shown = set()
    for _ in range(14):
        shown.add(page.evaluate(LOOK, "main")["hash"])
        page.wait_for_timeout(100)
    assert len(shown) == 2
    page.keyboard.press("f")
    page.wait_for_timeout(500)
    still = {
        page.evaluate(LOOK, "main")["hash"] for _ in range(3) if not page.wait_for_timeout(450)
    }
    assert len(still) == 1


def test_full_images_are_fetched_only_when_the_viewer_is_used(strip, visit):
    sizes = {}
    seen = visit("/livez")

    def note(response):
        body = int(response.headers.get("content-length") or len(response.body()))
        sizes[response.url] = body

    seen.page.on("response", note)
    seen.open(strip)
    seen.page.wait_for_load_state("networkidle")  # whatever comes late counts too
    assert sum(sizes.values()) < 600_000, sizes
    assert not [url for url in sizes if "/images/copy/" in url]
    with seen.page.expect_response(lambda response: "/images/copy/" in response.url):
        seen.page.locator("#trip").focus()


def test_without_script_the_strip_and_its_numbers_are_there(strip, visit):
    seen = visit(strip, java_script_enabled=False)
    page = seen.page
    assert not page.locator(".viewer").is_visible()
    assert page.locator(".strip img").count() == 11
    assert page.locator(".strip figcaption").nth(2).is_visible()
    assert page.locator(".table").first.is_visible()


@pytest.mark.slow
def test_the_other_pages_have_no_fault(run, visit):
    seen, found = visit("/livez"), {}
    for address in (
        reverse("case", args=[run.suite.cases.first().pk]),
        run.suite.get_absolute_url(),
        *(reverse(name) for name in ("suites", "methodology", "about", "changelog")),
        run.get_absolute_url(),
    ):
        seen.open(address)
        found[address] = seen.faults_in_all_looks()
    assert {address: faults for address, faults in found.items() if faults} == {}
    for size in (WIDE, PHONE):  # how it went is a sentence, not a column of words
        seen.show(size, "light")
        told = seen.page.locator(".chains tbody td:nth-child(5)").first
        assert told.bounding_box()["width"] >= 150


def test_the_page_of_a_run_follows_it_to_its_end(run, visit):
    Run.objects.filter(pk=run.pk).update(state=RunState.PLAYING)
    RunProgress.objects.filter(pk=run.pk).update(edits_done=7)
    run.editing_model.is_reference = True
    run.editing_model.save()
    seen = visit("/livez")
    page = seen.page
    page.clock.install()
    seen.open(run.get_absolute_url())
    assert "7 of 20" in page.text_content('[data-live="edits"]')
    assert seen.faults() == []
    RunProgress.objects.filter(pk=run.pk).update(edits_done=13)
    page.wait_for_function(
        "() => document.querySelector('[data-live=edits]').textContent.includes('13 of 20')",
        timeout=15_000,
    )
    Run.objects.filter(pk=run.pk).update(state=RunState.FINISHED)
    page.wait_for_selector("text=Published as a reference editor", timeout=15_000)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(60_000)
    assert not [url for url in asked if "progress.json" in url]
    assert seen.faults() == []


def test_a_link_opens_the_folded_section_of_the_method_it_leads_to(visit):
    page = visit("/methodology/#people").page
    assert page.locator("#people").is_visible()
    assert not page.locator("#weights").is_visible()
    page.evaluate("location.hash = 'weights'")
    page.locator("#weights").wait_for(state="visible")
