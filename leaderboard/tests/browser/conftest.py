"""A real Chromium for the pages; skipped where there is none.

`visit` opens pages of the live server and watches them: what the browser
complained about, which policy was broken, how far things jumped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

#: The windows every page is walked in.
WIDE, PHONE = (1280, 900), (390, 844)
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
#: Every rule, but no list of what passed: writing that down takes longer than looking.
AXE = {"resultTypes": ["violations"], "preload": False, "iframes": False}
LOADED = """() => [...document.images].every((image) => {
  const box = image.getBoundingClientRect();
  const far = box.top > innerHeight || box.bottom < 0 || !box.width;
  return image.complete || (image.loading === "lazy" && far);
})"""
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


@dataclass
class Visit:
    """An open page with what it said while it was looked at."""

    page: Any
    base: str
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        self.page.goto(self.base + address)

    def settle(self) -> None:
        """Wait until all that the page asks for by itself is there.

        Not for a quiet network, which takes half a second of silence each time.
        """
        self.page.wait_for_load_state("load")
        self.page.wait_for_function(LOADED)

    def see_chart(self) -> None:
        """Scroll to the chart and wait until plotly drew it."""
        self.page.locator(".plot").first.scroll_into_view_if_needed()
        self.page.wait_for_selector(".plot[data-drawn]")

    def faults(self) -> list[str]:
        """Everything that is wrong with the page as it stands now."""
        from axe_playwright_python.sync_playwright import Axe

        found = list(self.complaints)
        found += self.page.evaluate("window.violations")
        shift = self.page.evaluate("window.shift")
        if shift >= 0.1:
            found.append(f"the layout shifted by {shift:.3f}")
        over = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if over > 0:
            found.append(f"the page is {over} px wider than the window")
        for violation in Axe().run(self.page, options=AXE).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = "; ".join(node["html"][:120] for node in violation["nodes"][:3])
                found.append(f"axe: {violation['id']}: {nodes}")
        return found


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
