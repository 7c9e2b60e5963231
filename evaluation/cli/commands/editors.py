"""`convergebench editors`: what can be played here, and what the others lack."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from evaluation.cli.editor_options import check_options, options_of
from evaluation.cli.own_editors import find_own, is_place, load_own, recorded
from evaluation.cli.printing import CommandError, say, say_json, table
from evaluation.content import catalog
from evaluation.editors import EDITORS, Editor, editor_class, find_row, load_editor, load_row
from evaluation.editors.contracts import CONTRACTS
from evaluation.editors.reference import RuleEditor
from evaluation.errors import EditorError

HELP = "list the editors, and what is missing to run each; or one editor's options"
DESCRIPTION = """\
Every name that `play --editor` takes: the editing models of the benchmark, and
the bare editors they are made of. A model that cannot run here says what it
lacks: a key, a package, weights. With a name (or my.module:MyEditor): what
`--option` takes for it, with types, ranges and defaults."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="tell the options of this one")
    parser.add_argument("--ready", action="store_true", help="only those that can run now")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(args: argparse.Namespace) -> int:
    if args.name:
        return _tell_options(args.name, args.json)
    found = [entry for entry in _entries() if not (args.ready and entry["missing"])]
    if args.json:
        say_json("editors", {"editors": found})
        return 0
    rows = [
        [e["name"], e["id"], e["title"], e["editor"], _price(e), "; ".join(e["missing"]) or "ready"]
        for e in found
    ]
    say(table(["name", "or", "model", "editor", "per edit", "to run it"], rows))
    return 0


def _tell_options(name: str, as_json: bool) -> int:
    """The options of one editor, as its row sets them where it is a row's."""
    made, given = _made(name)
    found = [replace(o, default=given.get(o.name, o.default)) for o in options_of(made)]
    required = {o.name: o.required and o.name not in given for o in found}
    if as_json:
        options = [{**asdict(o), "required": required[o.name]} for o in found]
        about = inspect.getdoc(made) or ""
        say_json("editor-options", {"name": name, "about": about, "options": options})
        return 0
    say(inspect.getdoc(made) or name)
    rows = [
        [o.name, o.type, o.range, "required" if required[o.name] else _shown(o.default)]
        for o in found
    ]
    say("\n" + (table(["option", "type", "range", "default"], rows) if rows else "no options"))
    return 0


def _shown(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _made(name: str) -> tuple[Any, dict[str, Any]]:
    """What makes the editor of this name, and the options that its row gives."""
    if is_place(name):
        return find_own(name), {}
    rows = catalog.editing_models()
    try:
        row = find_row(rows, name)
    except EditorError:
        row = {"editor": name}
    made = editor_class(row["editor"])
    if made is None:
        raise CommandError(_unknown(name, [*EDITORS, *(r["slug"] for r in rows)]))
    return made, dict(row.get("options") or {})


def _entries() -> list[dict[str, Any]]:
    rows = catalog.editing_models()
    entries = [
        {
            "name": row["slug"],
            "id": _id(row),
            "title": row["name"],
            "editor": row["editor"],
            "paid": row.get("access") == "api",
            "price": row.get("price_per_edit"),
            "missing": _missing(lambda row=row: load_row(row)),
        }
        for row in rows
    ]
    taken = {row["slug"] for row in rows}
    for name in EDITORS:
        if name not in taken:
            entries.append(
                {
                    "name": name,
                    "id": "",
                    "title": "",
                    "editor": name,
                    "paid": None,
                    "price": None,
                    "missing": _missing(lambda name=name: load_editor(name)),
                }
            )
    return entries


def _id(row: Mapping[str, Any]) -> str:
    """The model's own id, where it is not the row's name: `--editor` takes both."""
    found = str((row.get("options") or {}).get("model") or "")
    return "" if found == row["slug"] else found


def _missing(load: Any) -> list[str]:
    try:
        return list(load().missing())
    except EditorError as error:
        return [error.message]
    except TypeError:
        return ["give its settings with --option NAME=VALUE"]


def _price(entry: dict[str, Any]) -> str:
    if entry["price"] is None:
        return "unknown" if entry["paid"] else ""
    return f"${float(entry['price']):.3f}"


def find_editor(name: str, options: dict[str, Any]) -> tuple[Editor, dict[str, Any]]:
    """The editor called `name`, made ready to play, and what the run's record says of it.

    A row of editing_models.json by its slug, a bare editor, or one of somebody's own by its
    place. CommandError suggests names that are close, or says what the editor lacks.
    """
    if is_place(name):
        return own_editor(load_own(name, options), recorded(name), options)
    rows = catalog.editing_models()
    row: dict[str, Any] = {}
    try:
        row = dict(find_row(rows, name))
    except EditorError:
        if name not in EDITORS:
            raise CommandError(_unknown(name, [*EDITORS, *(r["slug"] for r in rows)])) from None
        # A bare editor that some model is: it has that model's name and price.
        same = [r for r in rows if r["editor"] == name and (r.get("options") or {}) == options]
        row = dict(same[0], slug=name) if len(same) == 1 else {}
    if made := editor_class(row.get("editor", name)):
        check_options(name, made, options)
    try:
        if row:
            row["options"] = {**(row.get("options") or {}), **options}
            editor = load_row(row)
        else:
            editor = load_editor(name, **options)
    except TypeError as error:
        message = str(error).partition("__init__() ")[2] or str(error)
        raise CommandError(f"the editor {name} {message}; see --option") from None
    if lacking := editor.missing():
        raise CommandError(f"{name} cannot run here: {'; '.join(lacking)}")
    price = (row.get("options") or options).get("price", row.get("price_per_edit"))
    return editor, {
        "editor": row.get("editor", name),
        "options": {k: v for k, v in row.get("options", options).items() if k != "api_key"},
        "slug": row.get("slug", name),
        "name": row.get("name", name),
        "price": None if price is None else float(price),
        # What runs on this machine is not paid by the edit.
        "free": editor.queue == "gpu" or isinstance(editor, RuleEditor),
        "in_flight": int(row.get("max_in_flight") or 1),
        "calls_per_minute": row.get("calls_per_minute"),
    }


def own_editor(
    editor: Editor, place: str, options: Mapping[str, Any]
) -> tuple[Editor, dict[str, Any]]:
    """Somebody's own editor, and what the run's record says of it."""
    if lacking := editor.missing():
        raise CommandError(f"{place} cannot run here: {'; '.join(lacking)}")
    name = place.rpartition(":")[2]
    return editor, {
        "editor": place,
        "options": dict(options),
        "slug": re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "own",
        "name": name,
        "price": None,
        "free": False,
        "own": True,  # whoever wrote it knows what it costs, and need not be asked
        "in_flight": 1,
        "calls_per_minute": None,
    }


def add_choice(parser: argparse.ArgumentParser, *, many: bool = False) -> None:
    """The arguments that say who is to edit: an editor by name, or an endpoint by its address."""
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument(
        "--editor",
        metavar="NAME",
        help="a name of `convergebench editors`, or your own: my.module:MyEditor, file.py:function",
    )
    if many:
        who.add_argument("--models", metavar="NAMES", help="several names, with commas between")
    who.add_argument("--endpoint", metavar="URL", help="the base of an API, or its full address")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the editor or endpoint; may be repeated",
    )
    parser.add_argument(
        "--contract", choices=list(CONTRACTS), default="openai-edits", help="of an endpoint"
    )
    parser.add_argument(
        "--key-env", metavar="NAME", help="the environment variable with an endpoint's key"
    )
    parser.add_argument(
        "--allow-local",
        action="store_true",
        help="an endpoint by http, on this machine or the local network",
    )


def chosen_editors(args: argparse.Namespace) -> list[tuple[Editor, dict[str, Any]]]:
    """Everybody whom these arguments name, in their order."""
    if not args.models:
        return [chosen_editor(args)]
    names = list(dict.fromkeys(name.strip() for name in args.models.split(",") if name.strip()))
    if not names:
        raise CommandError("--models names nobody")
    return [find_editor(name, _options(args.option)) for name in names]


def chosen_editor(args: argparse.Namespace) -> tuple[Editor, dict[str, Any]]:
    """The editor that these arguments name, and what the run's record says of it."""
    options = _options(args.option)
    if args.editor:
        return find_editor(args.editor, options)
    options = {"url": args.endpoint, "contract": args.contract, **options}
    key = os.environ.get(args.key_env, "") if args.key_env else ""
    if args.key_env and not key:
        raise CommandError(f"the environment variable {args.key_env} is not set")
    try:
        editor = load_editor("endpoint", **options, api_key=key, allow_local=args.allow_local)
    except TypeError as error:
        message = str(error).partition("__init__() ")[2] or str(error)
        raise CommandError(f"the endpoint {message}; see --option") from None
    name = urlsplit(args.endpoint).netloc.replace(":", "-") or "endpoint"
    return editor, {
        "editor": "endpoint",
        "options": options,
        "slug": name,
        "name": name,
        "price": None,
        "free": args.allow_local,
        "in_flight": 1,
        "calls_per_minute": None,
    }


def _options(pairs: list[str]) -> dict[str, Any]:
    """NAME=VALUE; a value that reads as JSON is that, else it is text."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"--option {pair!r} is not NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def _unknown(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "`convergebench editors` lists all"
    return f"there is no editor called {name!r}; {hint}"
