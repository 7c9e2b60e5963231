"""A document as one HTML page with its style inside; figures stand beside it."""

from __future__ import annotations

from django.utils.html import escape

from leaderboard.exchange.documents.blocks import (
    Block,
    Document,
    Figure,
    Paragraph,
    Points,
    Table,
    Verbatim,
)

_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 Georgia, serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, th { font-family: system-ui, sans-serif; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
.about { opacity: .75; }
figure { margin: 1.5rem 0; } figure img { width: 100%; background: #fff; }
figcaption, caption { font-size: .9rem; text-align: left; padding-bottom: .4rem; }
.table { overflow-x: auto; margin: 1.5rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .2rem .7rem .2rem 0; text-align: right; vertical-align: top; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th, tbody tr:last-child > * { border-bottom: 1px solid; } thead th { border-top: 1px solid; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
.note { font-size: .85rem; }
"""


def printed(document: Document) -> str:
    """The whole page."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'; img-src 'self' data:\">",
            f"<title>{escape(document.title)}</title>",
            f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>{escape(document.title)}</h1>",
            f'<p class="about">{escape(document.author)}, {escape(document.date)}</p>',
            f"<p>{escape(document.abstract)}</p>",
            *(
                f"<h2>{escape(section.title)}</h2>\n" + "\n".join(map(_block, section.blocks))
                for section in document.sections
            ),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Points(items):
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
        case Verbatim(text):
            return f'<pre tabindex="0">{escape(text)}</pre>'
        case Figure(name, caption):
            return (
                f'<figure><img src="figures/{escape(name)}.svg" alt="{escape(caption)}">'
                f"<figcaption>{escape(caption)}</figcaption></figure>"
            )
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="table" id="{escape(table.name)}" role="region" tabindex="0" '
        f'aria-label="{escape(table.caption)}">'
        f"<table><caption>{escape(table.caption)}</caption><thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table></div>{note}"
    )
