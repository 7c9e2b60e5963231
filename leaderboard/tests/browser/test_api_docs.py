"""The API's documentation, in a real browser: drawn by our own files, under the site's policy."""

from __future__ import annotations

import pytest

from leaderboard.testing.browser import LOOKS

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_documentation_is_drawn_without_a_complaint(visit):
    seen = visit("/api/v1/docs")
    seen.page.wait_for_selector(".opblock-post")
    assert seen.page.get_by_text("Authorization: Bearer").first.is_visible()
    # How swagger-ui itself draws and moves is not ours to judge; what it breaks would be.
    for _, size, scheme, _ in LOOKS:
        seen.show(size, scheme)
        assert [fault for fault in seen.faults(axe=False) if "layout" not in fault] == []
