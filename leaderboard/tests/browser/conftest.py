"""A real Chromium for the pages; skipped where there is none.

`visit` opens pages of the live server and watches them: what the browser
complained about, which policy was broken, how far things jumped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leaderboard.testing.browser import WIDE, Visit

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
WATCH = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}`);
});
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for the tests of a file.

    No longer than that: while it is open an event loop runs in this thread, and tests
    of other files that want one of their own would fail.
    """
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if path is None:
        pytest.skip("needs Chromium, which is not installed here")
    playwright = pytest.importorskip("playwright.sync_api")
    # Playwright runs an event loop in this thread; Django would refuse its own queries.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def visit(chromium: Any, live_server: Any) -> Iterator[Callable[..., Visit]]:
    """`visit("/", size=PHONE)` opens an address and returns the watched page."""
    contexts = []

    def start(address: str, *, size: tuple[int, int] = WIDE, **options: Any) -> Visit:
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]}, bypass_csp=False, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(WATCH)
        seen = Visit(page, live_server.url)
        page.on(
            "console",
            lambda message: (
                message.type in ("error", "warning")
                and seen.complaints.append(f"console: {message.text}")
            ),
        )
        page.on("pageerror", lambda error: seen.complaints.append(f"script: {error}"))
        seen.open(address)
        return seen

    yield start
    for context in contexts:
        context.close()
