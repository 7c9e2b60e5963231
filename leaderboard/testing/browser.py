"""A page in a real browser, and its faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: The window sizes in which pages are checked.
WIDE, PHONE = (1280, 900), (390, 844)
#: All windows in all themes, and whether axe (a check of accessibility) runs: for one window of
#: each theme only, because it takes longest.
LOOKS = (
    ("wide light", WIDE, "light", True),
    ("phone light", PHONE, "light", False),
    ("phone dark", PHONE, "dark", True),
    ("wide dark", WIDE, "dark", False),
)
#: Options of axe: all rules, but no list of passed checks, which takes longer than the checks.
AXE = {"resultTypes": ["violations"], "preload": False, "iframes": False}
LOADED = """() => [...document.images].every((image) => {
  const box = image.getBoundingClientRect();
  const far = box.top > innerHeight || box.bottom < 0 || !box.width;
  return image.complete || (image.loading === "lazy" && far);
}) && [...document.querySelectorAll(".plot .main-svg")].every(
  (chart) => chart.clientWidth <= chart.closest(".plot").clientWidth + 1)"""


@dataclass
class Visit:
    """An open page, with the messages of its console."""

    page: Any
    base: str
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        self.page.goto(self.base + address)

    def settle(self) -> None:
        """Wait until the page has loaded its images, and its charts fit into their frames.

        Playwright's "networkidle" would add half a second each time.
        """
        self.page.wait_for_load_state("load")
        self.page.wait_for_function(LOADED)

    def see_chart(self) -> None:
        """Scroll to the chart and wait until plotly has drawn it."""
        self.page.locator(".plot").first.scroll_into_view_if_needed()
        self.page.wait_for_selector(".plot[data-drawn]")

    def show(self, size: tuple[int, int], scheme: str) -> None:
        """Switch the window and the theme of the open page."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=scheme)
        self.settle()

    def faults_in_all_looks(self) -> list[str]:
        """Return all faults of the open page in any window and theme."""
        faults = []
        for look, size, scheme, axe in LOOKS:
            self.show(size, scheme)
            faults += [f"{look}: {fault}" for fault in self.faults(axe=axe)]
        return faults

    def faults(self, *, axe: bool = True) -> list[str]:
        """Return all faults of the page in its present window and theme."""
        faults = list(self.complaints)
        faults += self.page.evaluate("window.violations")
        shift = self.page.evaluate("window.shift")
        if shift >= 0.1:
            faults.append(f"the layout shifted by {shift:.3f}")
        over = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if over > 0:
            faults.append(f"the page is {over} px wider than the window")
        if not axe:
            return faults
        from axe_playwright_python.sync_playwright import Axe

        for violation in Axe().run(self.page, options=AXE).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = "; ".join(node["html"][:120] for node in violation["nodes"][:3])
                faults.append(f"axe: {violation['id']}: {nodes}")
        return faults
