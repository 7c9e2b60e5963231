"""Tables and JSON on standard output; progress and notes on standard error."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from tqdm import tqdm

from evaluation.errors import UserFacingError


class CommandError(UserFacingError):
    """The reason why a command cannot be carried out."""


def at_least_one(text: str) -> int:
    """Parse a count. Raises ArgumentTypeError below 1."""
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def dollars(text: str) -> float:
    """Parse an amount of money. Raises ArgumentTypeError if invalid."""
    if not 0 <= (value := float(text)) < math.inf:
        raise argparse.ArgumentTypeError("must be a number of dollars, 0 or more")
    return value


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table; columns of numbers are right-aligned."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    numeric = [bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(head), rule, *(line(row) for row in rows)])


def _is_number(cell: str) -> bool:
    plain = cell.strip("<>≈% ").partition(" ")[0].replace(",", "")
    return (
        plain in ("", "-", "–", "not", "identical", "worse")
        or plain.lstrip("-").replace(".", "", 1).isdigit()
    )


def echo(text: str = "") -> None:
    """Print a line to standard output."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Print a line to standard error, above any progress bar."""
    tqdm.write(text, file=sys.stderr)


class Output(BaseModel):
    """The data that a command prints with `--json`.

    The version increases if a field is removed or changes its meaning, not if one is added.
    """

    model_config = ConfigDict(extra="forbid")
    schema_name: ClassVar[str]
    schema_version: ClassVar[int] = 1

    @classmethod
    def schema_id(cls) -> str:
        """Return the id of the schema, such as "convergebench/run/1"."""
        return f"convergebench/{cls.schema_name}/{cls.schema_version}"


def echo_json(output: Output) -> None:
    """Print the output with the id of its schema."""
    data = {"schema": output.schema_id(), **output.model_dump()}
    json.dump(data, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def progress(total: int, what: str, unit: str, initial: int = 0) -> tqdm[Any]:
    """Return a progress bar on standard error, with the time left."""
    return tqdm(
        total=total,
        initial=initial,
        desc=what,
        unit=unit,
        file=sys.stderr,
        dynamic_ncols=True,
        smoothing=0.1,
        # In a log file, one line every half minute is enough.
        mininterval=0.2 if sys.stderr.isatty() else 30,
    )
