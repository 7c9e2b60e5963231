"""Write docs/datasheet.md, the datasheet of the shipped suites: python -m tools.datasheet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evaluation.content import catalog
from evaluation.content.datasheet import Counts, concentrations, datasheet
from evaluation.content.suites import Suite

PAGE = Path(__file__).resolve().parents[1] / "docs/datasheet.md"
ABOUT = """# Datasheet of the suites

At the end of this page you know what the images of the shipped suites are of, and whom they leave out. Each suite's page has
its own part of it. `python -m tools.datasheet` writes this page from `fixtures/source_images.json`.

- **Origin**: a photograph, a photographed painting or print, our render, or an image that a model made.
- **Source** of a portrait: the site it was taken from, else its author.
- **Sex, age, skin, pose** are of the image and not of the person: one person said them by eye from the whole image, and
  the pose from a crop around the annotated face (frontal: both cheeks equally wide; three-quarter: both eyes seen;
  profile: one eye). They were not said twice, so their error is unknown.
- Three shades of **skin** are no scale of skin tones. Light, exposure, paint and toning shift them, and black-and-white
  images show them badly. No number here supports a claim about how a model treats a group of people.
- Nearly all photographs that may be passed on show white men in a suit, a dozen of them presidents of one country; most
  women and people of colour are AI-made or painted. AI-made faces are those that models draw most easily.
- Who needs a fairer set imports one with consent and licences and freezes a suite of it ([curating.md](curating.md)).
  Freezing warns where one origin of images or one source of faces has more than a third.
"""


def page(suites: list[Suite]) -> str:
    """Return the page: a table of images, one of portraits, and the warnings."""
    by_slug = {image.slug: image for image in catalog.source_images()}
    sheets = {
        suite.key: datasheet(by_slug[image.slug] for image in suite.images) for suite in suites
    }
    parts = [ABOUT, *(_table(what, sheets) for what in ("Images", "Portraits"))]
    warnings = [f"- {s.key}: {text}." for s in suites for text in concentrations(s.images)]
    return "\n".join([*parts, "## What freezing warns of\n", *warnings]) + "\n"


def _table(what: str, sheets: Mapping[str, Mapping[str, Counts]]) -> str:
    columns = {key: sheet[what] for key, sheet in sheets.items() if what in sheet}
    lines = [f"## {what}\n", f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    rows = datasheet(catalog.source_images())[what]
    for group, name in ((group, name) for group, counts in rows.items() for name in counts):
        cells = [str(groups[group].get(name, "")) for groups in columns.values()]
        lines.append(f"| {group}: {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    PAGE.write_text(page(catalog.suites()), "utf-8")


if __name__ == "__main__":
    main()
