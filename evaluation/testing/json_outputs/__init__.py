"""Hold what a command printed against its JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from pydantic import TypeAdapter

from evaluation.cli.printing import schema_id
from evaluation.cli.schemas import OUTPUTS, SCHEMAS, json_schema


def checked(name: str, text: str) -> Any:
    """The data in `text`; AssertionError or ValidationError where it is not as the schema says.

    By the generated schema, and by the model, which takes no field that nobody tells of.
    """
    data = json.loads(text)
    if name in OUTPUTS and data["schema"] != schema_id(name):
        raise AssertionError(f"the schema is {data['schema']}, not {schema_id(name)}")
    jsonschema_rs.validate(json_schema(name), data)
    TypeAdapter(SCHEMAS[name]).validate_json(text)
    return data
