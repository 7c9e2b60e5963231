"""Check a command's JSON output against its schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from pydantic import TypeAdapter

from evaluation.cli.commands.schema import OUTPUTS, SCHEMAS, json_schema


def checked(name: str, text: str) -> Any:
    """Return the data in `text`. Raises ValidationError if it does not match its schema.

    Checks against the generated JSON Schema, and against the model, which forbids extra fields.
    """
    data = json.loads(text)
    jsonschema_rs.validate(json_schema(name), data)
    model = {k: v for k, v in data.items() if k != "schema"} if name in OUTPUTS else data
    TypeAdapter[Any](SCHEMAS[name]).validate_json(json.dumps(model))
    return data
