from __future__ import annotations

import itertools
import re

import pytest

from evaluation.testing.hostile_server import HostileServer, response
from leaderboard.models import Chain, StoredImage, Trip
from leaderboard.standings import refresh_ranks
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.testing.browser import PHONE, WIDE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PIXEL = '<svg xmlns="http://www.w3.org/2000/svg" width="64" height="48"/>'


@pytest.fixture
def board():
    suite = make_suite(images=10, pairs=12)
    scopes = ("all", "category:geometry", "kind:face")
    for place, half_life in enumerate((9, 7, 4, 2, 1)):
        model = make_model(f"Model {place}", open_weights=place % 2 == 0, price_per_edit="0.04")
        make_run(model, suite, half_life, scopes=scopes, rank=place + 1, chains=True)
    make_run(make_model("Oracle", is_reference=True), suite, 1e6, scopes=scopes)
    make_run(make_model("JPEG 75 each step", is_reference=True), suite, 12, scopes=scopes)
    make_run("Unfinished", suite, complete=False)
    return suite


def first_name(page):
    return page.locator(".board tbody th a").first.text_content()


def test_board_sorts_filters_and_draws_its_curves(board, visit):
    seen = visit("/")
    page = seen.page
    assert first_name(page) == "Model 0"
    seen.see_chart()
    assert seen.faults_in_all_looks() == []

    seen.show(WIDE, "light")
    page.click("thead >> text=Usable trips")
    page.wait_for_url(re.compile("sort=usable"))
    page.click("thead >> text=Usable trips")
    page.wait_for_url(re.compile("sort=-usable"))
    assert first_name(page) == "Model 4"
    assert seen.faults() == []

    seen.show(PHONE, "dark")
    page.select_option("#filters [name=sort]", "usable")
    page.click("#filters button")
    page.wait_for_url(re.compile("sort=usable"))
    page.select_option("#filters [name=weights]", "open")
    page.click("#filters button")
    page.wait_for_url(re.compile("weights=open"))
    assert "Model 1" not in page.locator(".board").inner_text()
    assert seen.faults() == []


def test_ticked_models_are_compared(board, visit):
    seen = visit("/", size=PHONE)
    page = seen.page
    assert page.locator("#compare-button").is_disabled()
    for name in ("Model 0", "Model 3"):
        page.check(f"input[aria-label='Compare {name}']")
    page.click("text=Compare 2 models")
    page.wait_for_url(re.compile("models=model-0,model-3"))
    assert "longer than Model 3" in page.locator("h1").text_content()
    seen.see_chart()
    assert seen.faults_in_all_looks() == []

    page.check(".picker input[value=model-1]")
    page.click(".picker button")
    page.wait_for_url(re.compile("models=model-0,model-1,model-3"))
    assert seen.faults() == []


def test_pages_are_without_faults(board, visit):
    make_suite("empty", images=1)
    refresh_ranks(board)
    seen, found = visit("/livez"), {}
    for address in (
        "/categories/",
        "/compare/",
        "/compare/?models=oracle,model-0",
        "/gallery/",
        "/new/",
        "/new/board/",
        "/embed/board/",
        "/?suite=empty-v1",
    ):
        seen.open(address)
        found[address] = seen.faults_in_all_looks()
    assert {address: faults for address, faults in found.items() if faults} == {}


def test_the_legend_shows_and_hides_a_curve_from_the_keyboard(board, visit):
    seen = visit("/")
    seen.see_chart()
    button = seen.page.locator(".legend button").first
    assert button.get_attribute("aria-pressed") == "true"
    lines = seen.page.locator(".plot .scatterlayer .trace")
    before = lines.count()
    button.focus()
    seen.page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    seen.page.wait_for_function(
        "n => document.querySelectorAll('.plot .scatterlayer .trace').length < n", arg=before
    )
    assert seen.faults() == []


def test_charts_download_as_images(board, visit):
    seen = visit("/", color_scheme="dark")
    seen.see_chart()
    for kind in ("png", "svg"):
        with seen.page.expect_download() as download:
            seen.page.click(f"#curves [data-download={kind}]")
        assert download.value.suggested_filename == f"convergebench-demo-v1-overall-curves.{kind}"
        data = download.value.path().read_bytes()
        assert data.startswith(b"\x89PNG" if kind == "png" else b"<svg")
    # The last one is text: it says what it shows, from where, and is light though the page is dark.
    assert b"Demo v1, by Overall, results of" in data
    assert seen.base.encode() in data
    assert b"rgb(255, 255, 255)" in data
    assert seen.faults() == []


def test_a_cheap_open_model_is_found_shared_and_its_column_explained(board, visit):
    seen = visit("/", size=PHONE)
    page = seen.page
    page.fill("#filters [name=q]", "model")
    page.click("text=More filters")
    # Chosen with the pointer, it applies at once.
    page.select_option("#filters [name=price]", "0.05")
    page.wait_for_url(re.compile("price=0.05"))
    page.select_option("#filters [name=weights]", "open")
    page.click("#filters button")
    page.wait_for_url(re.compile("q=model.*weights=open.*price=0.05.*#filters"))
    top = page.evaluate("document.getElementById('filters').getBoundingClientRect().top")
    assert 0 <= top < 200, "the table keeps its place"
    assert page.locator(".chosen .tag").count() == 3
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("text=Link to this view")
    page.wait_for_selector("text=Copied.")
    assert "price=0.05" in page.evaluate("navigator.clipboard.readText()")
    page.click("text=Copy citation")
    page.wait_for_function("navigator.clipboard.readText().then((t) => t.includes('Demo v1'))")
    page.click("text=What each column means")
    assert page.locator("#about-usable").is_visible()
    assert seen.faults() == []

    wide = visit("/")
    head = wide.page.locator("thead th.usable")
    head.locator("a").focus()
    shown = "getComputedStyle(document.querySelector('thead th.usable'), '::after').content"
    assert "Round trips until" in wide.page.evaluate(shown)
    wide.page.locator("#value").scroll_into_view_if_needed()
    wide.page.wait_for_selector("#value .plot[data-drawn]")
    wide.page.click("text=Price per usable trip")
    wide.page.wait_for_url(re.compile("/value/"))
    wide.see_chart()
    assert wide.faults() == []


def test_names_of_close_points_do_not_cover_each_other_on_a_phone(visit):
    suite = make_suite()
    for name, price, half_life in (
        ("Cheap", "0.01", 3),
        ("Two that are close", "0.05", 9),
        ("The other of the two", "0.052", 9.1),
        ("Dear", "0.2", 12),
    ):
        make_run(make_model(name, price_per_edit=price), suite, half_life)
    seen = visit("/value/", size=PHONE)
    seen.see_chart()
    boxes = seen.page.evaluate(
        "[...document.querySelectorAll('.annotation')]"
        ".filter((label) => getComputedStyle(label).visibility !== 'hidden')"
        ".map((label) => label.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) > 1
    for one, other in itertools.combinations(boxes, 2):
        assert (
            one["right"] <= other["left"]
            or other["right"] <= one["left"]
            or one["bottom"] <= other["top"]
            or other["bottom"] <= one["top"]
        )


@pytest.fixture
def strip(board):
    """A case of the leader in images, which the tour shows."""
    stored = [
        StoredImage.objects.create(
            sha256=f"{n:064x}", mime="image/png", width=64, height=48, bytes=9
        )
        for n in range(22)
    ]
    board.images.update(stored=stored[0])
    for chain in Chain.objects.filter(run__editing_model__slug="model-0"):
        Trip.objects.bulk_create(
            Trip(chain=chain, number=n, edited=stored[21], restored=stored[n]) for n in (1, 5, 20)
        )


def test_the_tour_plays_by_itself_and_stops_when_asked(strip, visit):
    seen = visit("/livez")
    page = seen.page
    page.clock.install()
    page.route(
        "**/images/**", lambda route: route.fulfill(body=PIXEL, content_type="image/svg+xml")
    )
    seen.open("/tour/")
    place = page.locator("#tour [data-say]")
    assert place.text_content() == "1 of 7"
    page.clock.run_for(7_500)
    assert place.text_content() == "2 of 7"
    page.click("#tour >> text=Stop")
    page.clock.run_for(60_000)
    assert place.text_content() == "2 of 7"
    page.click("#tour >> text=Next")
    assert place.text_content() == "3 of 7"
    assert "one round trip" in page.locator("#tour [data-live]").text_content()
    assert seen.faults() == []


def test_who_wants_no_motion_starts_the_tour_themselves(strip, visit):
    seen = visit("/livez", reduced_motion="reduce", size=PHONE)
    page = seen.page
    page.clock.install()
    page.route(
        "**/images/**", lambda route: route.fulfill(body=PIXEL, content_type="image/svg+xml")
    )
    seen.open("/tour/")
    page.clock.run_for(60_000)
    assert page.locator("#tour [data-say]").text_content() == "1 of 7"
    assert page.locator("#tour [data-do=play]").text_content() == "Play"


def test_another_site_can_frame_the_embedded_board_and_no_other_page(board, visit):
    seen = visit("/livez")
    paths = ("/embed/board/", "/")
    frames = "".join(f'<iframe src="{seen.base}{path}"></iframe>' for path in paths)
    with HostileServer() as elsewhere:
        seen.page.goto(elsewhere.answers("/", response(200, frames.encode(), "text/html")))
        first, second = seen.page.frames[1:]
        first.wait_for_selector("text=Model 0")
        assert not second.locator("text=Model 0").count()


def test_on_paper_a_dark_page_is_light_and_has_no_buttons(board, visit):
    seen = visit("/", color_scheme="dark")
    page = seen.page
    seen.see_chart()
    dark = page.evaluate("getComputedStyle(document.querySelector('.plot text')).fill")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(
        "before => getComputedStyle(document.querySelector('.plot text')).fill !== before", arg=dark
    )
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 35, 38)"
    for place in (".masthead", "#filters", ".under", ".tools", ".footer"):
        assert not page.locator(place).first.is_visible(), place
    assert page.locator(".board tbody th").first.is_visible()
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.wait_for_function(
        "before => getComputedStyle(document.querySelector('.plot text')).fill === before", arg=dark
    )


def test_without_script_the_board_sorts_and_has_its_numbers(board, visit):
    seen = visit("/", java_script_enabled=False)
    page = seen.page
    assert not page.locator("#curves .plot").is_visible()
    page.click("text=The numbers")
    assert page.locator("#curves table").is_visible()
    page.click("thead >> text=Provider")
    page.wait_for_url(re.compile("sort=provider"))
    page.select_option("#filters [name=cases]", "category:geometry")
    page.click("#filters button")
    page.wait_for_url(re.compile("cases=category"))


def test_when_plotly_does_not_load_the_numbers_open(board, visit):
    seen = visit("/livez")
    seen.page.route("**/plotly-basic*", lambda route: route.abort())
    seen.open("/")
    seen.page.locator("#curves").scroll_into_view_if_needed()
    seen.page.wait_for_selector("#curves details[open]")
    assert seen.page.locator("#curves table").is_visible()


def test_the_first_view_fits_its_budget(board, visit):
    sizes = {}
    seen = visit("/livez")

    def note(response):
        body = int(response.headers.get("content-length") or len(response.body()))
        sizes[response.url] = body

    seen.page.on("response", note)
    seen.open("/")
    seen.page.wait_for_load_state("load")
    first = {url: size for url, size in sizes.items() if "plotly-basic" not in url}
    assert sum(first.values()) < 120_000, first
