"""What every `--json` and every file of a run holds, as pydantic models and as JSON Schema.

`SCHEMAS` has them by name. The text of a `--json` says its own under "schema", such as
"convergebench/play/1": the number grows when a field goes or means something else, not when one
is added. Files say their "format".
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from evaluation.bundle.format import Document
from evaluation.cli.printing import SCHEMA_VERSIONS, schema_id
from evaluation.cli.schemas import files, outputs

#: Of `--json`, by the name that stands in its text.
OUTPUTS: dict[str, type[outputs.Output]] = {
    "audit": outputs.Audit,
    "bundle": outputs.Bundle,
    "check-endpoint": outputs.CheckEndpoint,
    "editors": outputs.Editors,
    "editor-options": outputs.EditorOptions,
    "experiment": outputs.Experiment,
    "experiment-estimate": outputs.ExperimentEstimate,
    "import-scores": outputs.ImportScores,
    "merge": outputs.Merge,
    "play": outputs.Play,
    "play-models": outputs.PlayModels,
    "report": outputs.Report,
    "run": outputs.Run,
    "score": outputs.Score,
    "score-chain": outputs.ScoreChain,
    "score-chains": outputs.ScoreChains,
    "suites": outputs.Suites,
    "verify": outputs.Verify,
    "weights": outputs.Weights,
}
#: Of the files of a run, by their names.
FILES: dict[str, Any] = {
    "run.json": files.RunFile,
    "scores.json": files.RunScores,
    "chain.json": files.PlayedChain,
    "calls.jsonl": files.CallLine,
    "bundle.json": Document,
}
SCHEMAS: dict[str, Any] = {**OUTPUTS, **FILES}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one of them."""
    found = TypeAdapter(SCHEMAS[name]).json_schema(mode="validation")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"{name}"}
    if name in OUTPUTS:
        head["$id"] = schema_id(name)
        found["properties"]["schema"] = {"const": schema_id(name), "type": "string"}
    # The models are strict, so that tests find a field that nobody tells of; readers should not
    # be: a field may be added any day.
    return {**head, **{k: v for k, v in _open(found).items() if k != "title"}}


def _open(schema: Any) -> Any:
    """The schema, with room for fields to come."""
    if isinstance(schema, dict):
        inner = {name: _open(value) for name, value in schema.items()}
        return {k: v for k, v in inner.items() if (k, v) != ("additionalProperties", False)}
    return [_open(one) for one in schema] if isinstance(schema, list) else schema


if OUTPUTS.keys() != SCHEMA_VERSIONS.keys():  # a name that is printed and not told, or told twice
    raise ImportError(
        f"schemas and their versions differ: {OUTPUTS.keys() ^ SCHEMA_VERSIONS.keys()}"
    )
