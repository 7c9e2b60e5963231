"""Write docs/datasheet.md, the datasheet of the shipped suites: python -m tools.datasheet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evaluation.content import catalog
from evaluation.content.datasheet import Counts, concentrations, datasheet
from evaluation.content.suites import Suite

PAGE = Path(__file__).resolve().parents[1] / "docs/datasheet.md"
ABOUT = """# Datasheet of the suites

At the end of this page you know what the images of the shipped suites show, and which people are missing from them. Each
suite's page shows its own part. `python -m tools.datasheet` writes this page from `fixtures/source_images.json`.

- **Origin**: a photograph, a photographed painting or print, a render of this project, or an image that a model made.
- **Source** of a portrait: the website it comes from, or else its author.
- **Sex, age, skin, pose** describe the image, not the person. One person estimated them by eye, the pose from a crop
  around the annotated face (frontal: both cheeks equally wide; three-quarter: both eyes visible; profile: one eye
  visible). They were labelled only once, so their error is unknown.
- Three shades of **skin** are not a scale of skin tones. Light, exposure, paint and toning shift them, and
  black-and-white images show them badly. No number here supports a claim about how a model treats a group of people.
- Nearly all freely licensed photographs show white men in suits, a dozen of them presidents of one country. Most women
  and people of colour are AI-made or painted. AI-made faces are the faces that models draw most easily.
- If you need a fairer set, import images with consent and licences and freeze a suite of them ([curating.md](curating.md)).
  Freezing warns if more than a third of the images have one origin, or more than a third of the faces one source.
"""


def page(suites: list[Suite]) -> str:
    """Return the page: a table of images, one of portraits, and the warnings."""
    by_slug = {image.slug: image for image in catalog.source_images()}
    sheets = {
        suite.key: datasheet(by_slug[image.slug] for image in suite.images) for suite in suites
    }
    parts = [ABOUT, *(_table(what, sheets) for what in ("Images", "Portraits"))]
    warnings = [f"- {s.key}: {text}." for s in suites for text in concentrations(s.images)]
    return "\n".join([*parts, "## Warnings when a suite is frozen\n", *warnings]) + "\n"


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
