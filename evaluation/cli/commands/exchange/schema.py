"""`convergebench schema`: what a `--json` or a file of a run holds, as JSON Schema."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from evaluation.cli.printing import CommandError, say, table
from evaluation.cli.schemas import OUTPUTS, SCHEMAS, json_schema

HELP = "print the JSON Schema of a --json, or of a file of a run"
DESCRIPTION = """\
Without a name: all there are. Every --json says under "schema" which one it follows; the number
at its end grows when a field goes or means something else, not when one is added."""
EPILOG = """\
examples:
  convergebench schema play
  convergebench schema scores.json
  convergebench schema --out schemas      all of them, a file each"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a command, or a file of a run")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write all of them there")


def run(args: argparse.Namespace) -> int:
    if args.out:
        write(args.out)
        say(f"{args.out}: {len(SCHEMAS)} schemas")
    elif args.name is None:
        rows = [[n, "--json" if n in OUTPUTS else "file"] for n in SCHEMAS]
        say(table(["name", "of"], rows))
    elif args.name not in SCHEMAS:
        raise CommandError(f"there is no schema {args.name!r}; there are {', '.join(SCHEMAS)}")
    else:
        say(_text(args.name).rstrip())
    return 0


def write(folder: Path) -> None:
    """Write every schema to a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        (folder / f"{name}.schema.json").write_text(_text(name), encoding="utf-8")


def _text(name: str) -> str:
    return json.dumps(json_schema(name), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
