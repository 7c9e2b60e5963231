"""Whole sessions of votes in a real browser: by keyboard, and by touch at 390 px."""

from __future__ import annotations

import re

import pytest

from leaderboard.models import Vote
from leaderboard.people import counting, questions
from leaderboard.testing.browser import PHONE, WIDE
from leaderboard.testing.votable import cast_votes, votable_board

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def board():
    suite = votable_board()
    questions.refresh()
    return suite


def at(page, place):
    """Wait until this question is there, with its images."""
    page.wait_for_selector(f'#ballot[data-place="{place}"]')
    shown = "() => [...document.querySelectorAll('.frame > img:first-child')].every((i) => i.naturalWidth)"
    page.wait_for_function(shown)


def test_a_whole_session_by_keyboard(board, visit):
    seen = visit("/vote/", size=WIDE)
    page = seen.page
    assert seen.faults() == []
    page.get_by_role("button", name="Start").press("Enter")
    for place in range(1, 11):
        at(page, place)
        if place == 1:
            page.keyboard.press("f")
            page.wait_for_selector(".over:not([hidden])")
            page.keyboard.press("z")
            zoomed = page.evaluate("document.querySelector('.frame img').style.transform")
            assert zoomed == "scale(3)"
            page.keyboard.press("ArrowLeft")
            origins = page.evaluate(
                "[...document.querySelectorAll('.frame img')].map((i) => i.style.transformOrigin)"
            )
            assert set(origins) == {"40% 50%"}
            assert seen.faults() == []
            page.keyboard.press("f")
        page.keyboard.press(("1", "2", "0")[place % 3])
    page.wait_for_url(re.compile(r"/vote/done/"))
    seen.settle()
    assert seen.faults() == []
    said = list(Vote.objects.order_by("place").values_list("answer", flat=True))
    assert len(said) == 10
    assert None not in said
    sides = [vote.left for vote in Vote.objects.order_by("place")]
    assert sides == [(1, -1, 0)[place % 3] for place in range(1, 11)]
    first = Vote.objects.get(place=0)
    assert first.looked == {"zoom": True, "flicker": True, "width": 1300}
    assert 0 < first.seconds < 60
    assert page.locator("h1").text_content().startswith("Thank you")
    assert not page.evaluate("document.cookie.includes('voter')")


def test_a_whole_session_by_touch_on_a_phone(board, visit):
    seen = visit("/vote/?mode=usable", size=PHONE, has_touch=True, color_scheme="dark")
    page = seen.page
    page.get_by_role("button", name="Start").tap()
    for place in range(1, 11):
        at(page, place)
        if place == 1:
            page.locator('.frame[data-side="left"]').tap()
            page.wait_for_selector("#ballot.zoomed")
            page.locator('.frame[data-side="left"]').tap()
            page.wait_for_selector("#ballot:not(.zoomed)")
            assert seen.faults() == []
        answers = page.locator(".answer")
        for box in (answers.nth(n).bounding_box() for n in range(answers.count())):
            assert box["height"] >= 44
            assert box["y"] + box["height"] <= PHONE[1]  # without scrolling
        answers.nth(place % 2).tap()
    page.wait_for_url(re.compile(r"/vote/done/"))
    seen.settle()
    assert seen.faults() == []
    assert Vote.objects.answered().filter(kind="usable").count() == 10


def test_the_next_pair_is_there_before_it_is_needed(board, visit):
    seen = visit("/vote/", size=PHONE, has_touch=True)
    page = seen.page
    page.get_by_role("button", name="Start").tap()
    asked_late = []
    for place in range(1, 6):
        at(page, place)
        # All images of the question after this one have come by now, or are on their way.
        page.wait_for_function(
            "(n) => performance.getEntriesByType('resource')"
            ".filter((e) => e.name.includes('/vote/images/')).length >= n",
            arg=3 * min(10, place + 1),
        )
        page.wait_for_timeout(150)
        page.on("request", lambda request: asked_late.append(request.url))
        page.locator(".answer").first.tap()
        at(page, place + 1)
    # Nobody waited for an image: the page swapped decoded ones.
    assert float(page.get_attribute("#ballot", "data-waited")) < 100


def test_keys_can_be_turned_off_and_a_lost_answer_is_sent_again(board, visit):
    seen = visit("/vote/")
    page = seen.page
    page.get_by_role("button", name="Start").click()
    at(page, 1)
    page.locator("#keys").uncheck()
    page.keyboard.press("1")
    page.wait_for_timeout(100)
    assert page.get_attribute("#ballot", "data-place") == "1"
    page.locator("#keys").check()
    failed = []

    def fail_once(route):
        if failed:
            route.continue_()
        else:
            failed.append(route.request.url)
            route.abort()

    page.route("**/vote/answer", fail_once)
    page.locator("h2").click()
    page.keyboard.press("1")
    at(page, 2)
    page.keyboard.press("2")
    at(page, 3)
    for _ in range(50):
        if Vote.objects.answered().count() == 2:
            break
        page.wait_for_timeout(100)
    assert Vote.objects.answered().count() == 2
    assert failed


def test_the_page_on_agreement_opens_to_the_images(board, visit):
    cast_votes("pair", voters=8, each=30)
    cast_votes("usable", voters=8, each=30, seed=1, threshold=0.9)
    counting.count()
    seen = visit("/agreement/")
    page = seen.page
    seen.see_chart()
    assert seen.faults_in_all_looks() == []
    assert "Our threshold of" in page.content()
    page.locator(".revealed a").first.click()
    page.wait_for_url(re.compile(r"/runs/\d+/cases/\d+/"))
