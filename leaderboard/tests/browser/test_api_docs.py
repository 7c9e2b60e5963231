"""The API's documentation, in a real browser: drawn by our own files, under the site's policy."""

from __future__ import annotations

import pytest

from leaderboard.testing.browser import PHONE, WIDE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("size", [WIDE, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_documentation_is_drawn_without_a_complaint(visit, size, scheme):
    seen = visit("/api/v1/docs", size=size, color_scheme=scheme)
    seen.page.wait_for_selector(".opblock-post")
    assert seen.page.get_by_text("Authorization: Bearer").first.is_visible()
    seen.settle()
    # What swagger-ui itself draws is not ours to judge for contrast; what it breaks would be.
    assert seen.complaints == []
    assert seen.page.evaluate("window.violations") == []
    assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
