"""Write docs/method.md from the methodology page's templates: python -m tools.method_page."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

PAGE = Path(__file__).resolve().parents[1] / "docs/method.md"
ABOUT = """# Method

At the end of this page you know when an image counts as lost, how models are ranked, and the formulas behind both. The
page `/methodology/` of a site has the same text with figures, error rates and tricks; `python -m tools.method_page` writes
this file from its templates.
"""
PARTS = ("abstract", "mathematics")
MARKS = {"b": "**", "i": "*", "em": "*", "code": "`"}


def page() -> str:
    """Return the abstract and the mathematics as Markdown."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convergebench_site.settings")
    import django

    django.setup()
    from django.template.loader import render_to_string

    from leaderboard.views.texts import method

    blocks = [ABOUT.strip()]
    for part in PARTS:
        if part == "mathematics":
            blocks.append("## The mathematics")
        html = render_to_string(f"leaderboard/methodology/_{part}.html", method())
        blocks += _blocks(ElementTree.fromstring(f"<div>{html}</div>"))  # noqa: S314
    return "\n\n".join(blocks) + "\n"


def _blocks(element: Element) -> list[str]:
    """Return the blocks of Markdown inside an element."""
    blocks: list[str] = []
    for child in element:
        match child.tag:
            case "h2" | "h3":
                blocks.append("#" * int(child.tag[1]) + " " + _inline(child))
            case "p":
                blocks.append(textwrap.fill(_inline(child), 120, break_on_hyphens=False))
            case "ul":
                blocks.append("\n".join(_item(item) for item in child))
            case "math":
                blocks.append(f"$${_latex(child)}$$")
            case "table":
                blocks.append(_table(child))
            case _:
                blocks += _blocks(child)
    return blocks


def _item(element: Element) -> str:
    return textwrap.fill(
        "- " + _inline(element), 120, subsequent_indent="  ", break_on_hyphens=False
    )


def _table(element: Element) -> str:
    rows = [[_inline(cell) for cell in row] for row in element.iter("tr")]
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _inline(element: Element) -> str:
    """Return the text of an element on one line, with Markdown marks."""
    parts = [element.text or ""]
    for child in element:
        mark, inner = MARKS.get(child.tag, ""), _inline(child)
        inner = f"<sub>{inner}</sub>" if child.tag == "sub" else f"{mark}{inner}{mark}"
        parts += [inner, child.tail or ""]
    return " ".join("".join(parts).split()) if element.tag not in MARKS else "".join(parts)


def _latex(element: Element) -> str:
    """Convert a MathML formula to LaTeX."""
    inner = [_latex(child) for child in element]
    text = (element.text or "").strip()
    match element.tag:
        case "mfrac":
            return rf"\frac{{{inner[0]}}}{{{inner[1]}}}"
        case "msub":
            return f"{inner[0]}_{{{inner[1]}}}"
        case "msup":
            return f"{inner[0]}^{{{inner[1]}}}"
        case "mtext":
            return rf"\text{{{text}}}"
        case "mspace":
            return r"\ "
        case "mi" if len(text) > 1:
            return rf"\operatorname{{{text}}}"
        case "mo":
            return {"−": "-", "∑": r"\sum "}.get(text, text)
    return text + "".join(inner)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
