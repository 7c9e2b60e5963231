"""A page in a real browser, and everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: The windows every page is walked in.
WIDE, PHONE = (1280, 900), (390, 844)
#: Every window in every theme, and whether axe looks: once a theme, since it takes longest.
LOOKS = (
    ("wide light", WIDE, "light", True),
    ("phone light", PHONE, "light", False),
    ("phone dark", PHONE, "dark", True),
    ("wide dark", WIDE, "dark", False),
)
#: Every rule, but no list of what passed: writing that down takes longer than looking.
AXE = {"resultTypes": ["violations"], "preload": False, "iframes": False}
LOADED = """() => [...document.images].every((image) => {
  const box = image.getBoundingClientRect();
  const far = box.top > innerHeight || box.bottom < 0 || !box.width;
  return image.complete || (image.loading === "lazy" && far);
}) && [...document.querySelectorAll(".plot .main-svg")].every(
  (chart) => chart.clientWidth <= chart.closest(".plot").clientWidth + 1)"""


@dataclass
class Visit:
    """An open page with what it said while it was looked at."""

    page: Any
    base: str
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        self.page.goto(self.base + address)

    def settle(self) -> None:
        """Wait until all that the page asks for by itself is there, and charts fit.

        Not for a quiet network, which takes half a second of silence each time.
        """
        self.page.wait_for_load_state("load")
        self.page.wait_for_function(LOADED)

    def see_chart(self) -> None:
        """Scroll to the chart and wait until plotly drew it."""
        self.page.locator(".plot").first.scroll_into_view_if_needed()
        self.page.wait_for_selector(".plot[data-drawn]")

    def show(self, size: tuple[int, int], scheme: str) -> None:
        """Switch the window and the theme of the open page."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=scheme)
        self.settle()

    def faults_in_all_looks(self) -> list[str]:
        """Everything that is wrong with the open page in any window and theme."""
        found = []
        for look, size, scheme, axe in LOOKS:
            self.show(size, scheme)
            found += [f"{look}: {fault}" for fault in self.faults(axe=axe)]
        return found

    def faults(self, *, axe: bool = True) -> list[str]:
        """Everything that is wrong with the page as it stands now."""
        found = list(self.complaints)
        found += self.page.evaluate("window.violations")
        shift = self.page.evaluate("window.shift")
        if shift >= 0.1:
            found.append(f"the layout shifted by {shift:.3f}")
        over = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if over > 0:
            found.append(f"the page is {over} px wider than the window")
        if not axe:
            return found
        from axe_playwright_python.sync_playwright import Axe

        for violation in Axe().run(self.page, options=AXE).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = "; ".join(node["html"][:120] for node in violation["nodes"][:3])
                found.append(f"axe: {violation['id']}: {nodes}")
        return found
