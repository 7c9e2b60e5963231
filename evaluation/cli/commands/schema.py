"""`convergebench schema`: print the JSON Schema of a `--json` output or of a run's file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from evaluation.bundle.document import Document
from evaluation.cli.commands.bundle import BundleOutput
from evaluation.cli.commands.check_endpoint import CheckEndpointOutput
from evaluation.cli.commands.experiment import EstimateOutput, ExperimentOutput
from evaluation.cli.commands.list import EditorOptionsOutput, EditorsOutput, SuitesOutput
from evaluation.cli.commands.merge import MergeOutput
from evaluation.cli.commands.report import ReportOutput
from evaluation.cli.commands.run import RunOutput
from evaluation.cli.commands.score import ScoreChainsOutput, ScoreOutput
from evaluation.cli.commands.verify import VerifyOutput
from evaluation.cli.commands.weights import WeightsOutput
from evaluation.cli.printing import CommandError, Output, echo, table
from evaluation.play.run_folder import Call, PlayedChain, RunFile
from evaluation.play.run_scores import RunScores

HELP = "print the JSON Schema of a --json output, or of a file of a run"
DESCRIPTION = """\
Without a name, all schemas are listed. Every --json output names its schema under "schema".
The number at the end increases when a field is removed or changes its meaning, not when one
is added."""
EPILOG = """\
examples:
  convergebench schema run
  convergebench schema scores.json
  convergebench schema --out schemas      all schemas, one file each"""


#: The `--json` outputs of commands, by the name of their schema.
OUTPUTS: dict[str, type[Output]] = {
    output.schema_name: output
    for output in (
        BundleOutput,
        CheckEndpointOutput,
        EditorOptionsOutput,
        EditorsOutput,
        EstimateOutput,
        ExperimentOutput,
        MergeOutput,
        ReportOutput,
        RunOutput,
        ScoreChainsOutput,
        ScoreOutput,
        SuitesOutput,
        VerifyOutput,
        WeightsOutput,
    )
}
#: The files of a run, by their names.
FILES: dict[str, Any] = {
    "run.json": RunFile,
    "scores.json": RunScores,
    "chain.json": PlayedChain,
    "calls.jsonl": Call,
    "bundle.json": Document,
}
SCHEMAS: dict[str, Any] = {**OUTPUTS, **FILES}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a command, or a file of a run")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write all schemas into this folder"
    )


def run(args: argparse.Namespace) -> int:
    if args.out:
        write(args.out)
        echo(f"{args.out}: {len(SCHEMAS)} schemas")
    elif args.name is None:
        rows = [[n, "--json" if n in OUTPUTS else "file"] for n in SCHEMAS]
        echo(table(["name", "describes"], rows))
    elif args.name not in SCHEMAS:
        raise CommandError(f"there is no schema {args.name!r}; there are {', '.join(SCHEMAS)}")
    else:
        echo(_text(args.name).rstrip())
    return 0


def write(folder: Path) -> None:
    """Write every schema to a separate file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        (folder / f"{name}.schema.json").write_text(_text(name), encoding="utf-8")


def _text(name: str) -> str:
    return json.dumps(json_schema(name), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of one of SCHEMAS."""
    schema = TypeAdapter[Any](SCHEMAS[name]).json_schema(mode="validation")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name}
    if name in OUTPUTS:
        head["$id"] = OUTPUTS[name].schema_id()
        schema["properties"]["schema"] = {"const": OUTPUTS[name].schema_id(), "type": "string"}
    # The models are strict, so that tests find undocumented fields. Readers should accept
    # unknown fields, since a field may be added at any time.
    return {**head, **{k: v for k, v in _open(schema).items() if k != "title"}}


def _open(schema: Any) -> Any:
    """Return the schema without the ban on additional fields."""
    if isinstance(schema, dict):
        inner = {name: _open(value) for name, value in schema.items()}
        return {k: v for k, v in inner.items() if (k, v) != ("additionalProperties", False)}
    return [_open(part) for part in schema] if isinstance(schema, list) else schema
