from __future__ import annotations

import re

import pytest

from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.testing.browser import PHONE, WIDE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def board():
    suite = make_suite(pictures=10, pairs=12)
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


#: Both windows and both themes, without every pair of them.
LOOKS = pytest.mark.parametrize(
    ("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide light", "phone dark"]
)


@LOOKS
def test_board_sorts_filters_and_draws_its_curves(board, visit, size, scheme):
    seen = visit("/", size=size, color_scheme=scheme)
    page = seen.page
    assert first_name(page) == "Model 0"
    seen.settle()
    seen.see_chart()
    assert seen.faults() == []

    if size == WIDE:
        page.click("thead >> text=Usable trips")
    else:
        page.select_option("#filters [name=sort]", "usable")
        page.click("#filters button")
    page.wait_for_url(re.compile("sort=usable"))
    if size == WIDE:
        page.click("thead >> text=Usable trips")
        page.wait_for_url(re.compile("sort=-usable"))
        assert first_name(page) == "Model 4"
    assert seen.faults() == []

    page.select_option("#filters [name=weights]", "open")
    page.click("#filters button")
    page.wait_for_url(re.compile("weights=open"))
    assert "Model 1" not in page.locator(".board").inner_text()
    assert seen.faults() == []


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_ticked_models_are_compared(board, visit, size):
    seen = visit("/", size=size)
    page = seen.page
    assert page.locator("#compare-button").is_disabled()
    for name in ("Model 0", "Model 3"):
        page.check(f"input[aria-label='Compare {name}']")
    page.click("text=Compare 2 models")
    page.wait_for_url(re.compile("models=model-0,model-3"))
    assert "longer than Model 3" in page.locator("h1").text_content()
    seen.see_chart()
    assert seen.faults() == []

    page.check(".picker input[value=model-1]")
    page.click(".picker button")
    page.wait_for_url(re.compile("models=model-0,model-1,model-3"))
    assert seen.faults() == []


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "address", ["/categories/", "/compare/", "/compare/?models=oracle,model-0"]
)
def test_pages_are_without_faults(board, visit, size, scheme, address):
    seen = visit(address, size=size, color_scheme=scheme)
    seen.settle()
    assert seen.faults() == []


@pytest.mark.parametrize("address", ["/", "/compare/", "/categories/"])
def test_empty_pages_are_without_faults(db, visit, address):
    seen = visit(address, size=PHONE)
    assert seen.faults() == []


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


def test_hover_names_the_value_in_words(board, visit):
    seen = visit("/")
    seen.see_chart()
    point = seen.page.locator(".plot .scatterlayer .trace .point").nth(5)
    point.hover(force=True)
    words = seen.page.locator(".plot .hovertext").first
    words.wait_for()
    assert "after 5 round trips" in words.text_content()


def test_charts_download_as_pictures(board, visit):
    seen = visit("/")
    seen.see_chart()
    for kind in ("png", "svg"):
        with seen.page.expect_download() as download:
            seen.page.click(f"[data-download={kind}]")
        assert download.value.suggested_filename == f"convergebench-curves.{kind}"
        data = download.value.path().read_bytes()
        assert data.startswith(b"\x89PNG" if kind == "png" else b"<svg")
    assert seen.faults() == []


def test_without_script_the_board_sorts_and_has_its_numbers(board, visit):
    seen = visit("/", java_script_enabled=False)
    page = seen.page
    assert not page.locator(".plot").is_visible()
    page.click("text=The numbers")
    assert page.locator(".chart table").is_visible()
    page.click("thead >> text=Provider")
    page.wait_for_url(re.compile("sort=provider"))
    page.select_option("#filters [name=cases]", "category:geometry")
    page.click("#filters button")
    page.wait_for_url(re.compile("cases=category"))


def test_when_plotly_does_not_load_the_numbers_open(board, visit):
    seen = visit("/livez")
    seen.page.route("**/plotly-basic*", lambda route: route.abort())
    seen.open("/")
    seen.page.locator(".chart").scroll_into_view_if_needed()
    seen.page.wait_for_selector(".chart details[open]")
    assert seen.page.locator(".chart table").is_visible()


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
