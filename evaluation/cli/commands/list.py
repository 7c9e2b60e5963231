"""`convergebench list`: list editors, suites, and the options of an editor."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from pydantic import BaseModel, Field

from evaluation.cli.editors import EditorOption, editor_options, find_factory
from evaluation.cli.printing import CommandError, Output, echo, echo_json, table
from evaluation.content import catalog
from evaluation.editors import EDITORS, Editor, load_editor, load_row
from evaluation.errors import EditorError

HELP = "list the editors, the suites, or the options of an editor"
DESCRIPTION = """\
list editors         every name that `run --editor` takes: the editing models of the
                     benchmark, and the bare editors, which take the settings of a model
                     with --option. If a model cannot run here, its missing key, package
                     or weights are named.
list editors NAME    the options that `--option` can set for this editor (or for
                     my.module:MyEditor), with types, ranges and defaults.
list suites          every name that `run --suite` takes. A suite is a frozen, hashed
                     list of cases (a source image with an edit pair), with the number
                     of trips and the working size. Only results of the same suite are
                     compared."""


class EditorEntry(BaseModel):
    """An editor that `run --editor` takes."""

    name: str
    id: str = Field(description="The model's own id, if it differs from the name.")
    title: str
    editor: str
    paid: bool | None
    price: float | None = Field(description="USD per edit; None if unknown or free.")
    missing: list[str] = Field(description="Missing requirements; empty if ready to run.")


class EditorsOutput(Output):
    """Output of `list editors --json`."""

    schema_name = "editors"
    editors: list[EditorEntry]


class EditorOptionsOutput(Output):
    """Output of `list editors NAME --json`."""

    schema_name = "editor-options"
    name: str
    about: str
    options: list[EditorOption]


class SuitesOutput(Output):
    """Output of `list suites --json`."""

    schema_name = "suites"
    suites: list[dict[str, Any]] = Field(description="Whole suite files.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=("editors", "suites"))
    parser.add_argument("name", nargs="?", metavar="NAME", help="list the options of this editor")
    parser.add_argument("--ready", action="store_true", help="only editors that are ready to run")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(args: argparse.Namespace) -> int:
    if args.kind == "suites":
        if args.name:
            raise CommandError("`list suites` takes no name")
        _list_suites(args.json)
    elif args.name:
        _list_options(args.name, args.json)
    else:
        _list_editors(args.ready, args.json)
    return 0


def _list_suites(as_json: bool) -> None:
    suites = catalog.suites()
    if as_json:
        echo_json(SuitesOutput(suites=[suite.to_dict() for suite in suites]))
        return
    rows = [
        [
            suite.slug,
            str(suite.version),
            str(len(suite.images)),
            str(len(suite.cases)),
            str(suite.trips),
            f"{suite.edits:,}",
            f"{suite.size} px",
            suite.content_hash[:12],
            suite.title,
        ]
        for suite in suites
    ]
    head = ["suite", "version", "images", "cases", "trips", "edits", "size", "hash", "title"]
    echo(table(head, rows))


def _list_options(name: str, as_json: bool) -> None:
    """List the options of one editor, with their values in editing_models.json."""
    factory, preset = find_factory(name)
    options, about = editor_options(factory, preset), inspect.getdoc(factory) or name
    if as_json:
        echo_json(EditorOptionsOutput(name=name, about=about, options=options))
        return
    rows = [[o.name, o.type, _range(o), _default(o)] for o in options]
    listed = table(["option", "type", "range", "default"], rows) if rows else "no options"
    echo(f"{about}\n\n{listed}")


def _range(option: EditorOption) -> str:
    if option.least is None and option.most is None:
        return ""
    least, most = ("" if v is None else f"{v:g}" for v in (option.least, option.most))
    return f"{least} … {most}"


def _default(option: EditorOption) -> str:
    if option.required:
        return "required"
    return "" if option.default is None else json.dumps(option.default, ensure_ascii=False)


def _list_editors(ready: bool, as_json: bool) -> None:
    entries = [entry for entry in _entries() if not (ready and entry.missing)]
    if as_json:
        echo_json(EditorsOutput(editors=entries))
        return
    rows = [
        [e.name, e.id, e.title, e.editor, _price(e), "; ".join(e.missing) or "ready"]
        for e in entries
    ]
    echo(table(["name", "or id", "model", "editor", "per edit", "state"], rows))


def _entries() -> list[EditorEntry]:
    entries = []
    for row in catalog.editing_models():
        model = str((row.get("options") or {}).get("model") or "")
        entries.append(
            EditorEntry(
                name=row["slug"],
                id="" if model == row["slug"] else model,
                title=row["name"],
                editor=row["editor"],
                paid=row.get("access") == "api",
                price=row.get("price_per_edit"),
                missing=_missing(partial(load_row, row)),
            )
        )
    listed = {entry.name for entry in entries}
    for name in EDITORS:
        if name not in listed:
            missing = _missing(partial(load_editor, name))
            entries.append(
                EditorEntry(
                    name=name, id="", title="", editor=name, paid=None, price=None, missing=missing
                )
            )
    return entries


def _missing(load: Callable[[], Editor]) -> list[str]:
    try:
        return list(load().missing())
    except EditorError as error:
        return [error.message]
    except TypeError:
        return ["required options: set them with --option NAME=VALUE"]


def _price(entry: EditorEntry) -> str:
    if entry.price is None:
        return "unknown" if entry.paid else ""
    return f"${entry.price:.3f}"
