"""Links in the documents work, and each document begins with its outcome."""

import re
from pathlib import Path

from django.conf import settings

ROOT = Path(settings.BASE_DIR)
DOCS = sorted((ROOT / "docs").glob("*.md"))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_link_leads_to_a_file_and_a_heading():
    for path in [*DOCS, *ROOT.glob("*.md"), ROOT / "tools/README.md"]:
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
            if link.startswith(("http", "mailto:")):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), (path.name, link)
            if anchor:
                assert anchor in anchors(target), (path.name, link)


def test_every_document_begins_with_its_outcome():
    assert len(DOCS) >= 10
    for path in DOCS:
        title, first = path.read_text("utf-8").split("\n\n", 2)[:2]
        assert title.startswith("# "), path.name
        assert first.startswith("At the end of this page "), path.name


def test_the_changelog_keeps_its_format():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == "Unreleased"
    kinds = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
