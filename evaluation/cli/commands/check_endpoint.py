"""`convergebench check-endpoint URL`: the probe of the submission page, from the shell."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

from pydantic import BaseModel, Field

from evaluation.cli.printing import Output, say_json
from evaluation.editors.contracts import CONTRACTS, Settings, as_curl, find_contract
from evaluation.errors import EditorError
from evaluation.measuring.probe import ProbeReport, Step, probe_picture, probe_steps

HELP = "send one small picture through an endpoint and say whether it works"
MARKS = {"passed": "✓", "warning": "!", "failed": "✗", "skipped": "-"}


class ProbeStep(BaseModel):
    """One step of the probe."""

    name: str
    label: str
    state: str = Field(description='"passed", "warning", "failed" or "skipped".')
    detail: str
    advice: str
    data: dict[str, Any] = Field(description="What was measured in this step.")


class CheckEndpointOutput(Output):
    """`check-endpoint`."""

    schema_name = "check-endpoint"
    ok: bool
    seconds: float
    steps: list[ProbeStep]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the base of the API, or the full address")
    parser.add_argument("--contract", choices=list(CONTRACTS), default="openai-edits")
    parser.add_argument("--model", default="", help="the model id to send")
    parser.add_argument(
        "--key-env", metavar="NAME", help="the environment variable that holds the API key"
    )
    parser.add_argument(
        "--extra", metavar="JSON", default="{}", help="more parameters, as a JSON object"
    )
    parser.add_argument("--no-seed", action="store_true", help="do not send a seed")
    parser.add_argument(
        "--no-response-format", action="store_true", help="do not send response_format"
    )
    parser.add_argument(
        "--size", default="input", help='"input" (default), "omit" or like "1024x1024"'
    )
    parser.add_argument("--image-field", default="", help='another name; "images[]" sends a list')
    parser.add_argument("--prompt-field", default="", help="another name for the prompt's field")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for an edit")
    parser.add_argument(
        "--allow-local", action="store_true", help="http, this machine and the local network"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the report as JSON")
    output.add_argument("--curl", action="store_true", help="print the request, send nothing")


def run(args: argparse.Namespace) -> int:
    """Print the steps as they happen; 0 when none failed, 2 when the arguments do not fit."""
    try:
        options = _options(args)
    except ValueError as error:
        sys.stderr.write(f"check-endpoint: {error}\n")
        return 2
    if args.curl:
        return _show_curl(options)
    start, steps = time.monotonic(), dict[str, Step]()
    for step in probe_steps(options, quote=True):
        steps[step.name] = step
        if not args.json:
            _show(step)
    report = ProbeReport(tuple(steps.values()), time.monotonic() - start)
    if args.json:
        say_json(CheckEndpointOutput(**report.to_dict()))
    else:
        verdict = "The endpoint works." if report.ok else "The endpoint does not work yet."
        sys.stdout.write(f"\n{verdict}\n")
    return 0 if report.ok else 1


def _options(args: argparse.Namespace) -> dict[str, Any]:
    try:
        extra = json.loads(args.extra)
    except ValueError:
        raise ValueError("--extra is not JSON") from None
    key = ""
    if args.key_env:
        key = os.environ.get(args.key_env, "")
        if not key:
            raise ValueError(f"the environment variable {args.key_env} is not set")
    return {
        "url": args.url,
        "contract": args.contract,
        "model": args.model,
        "api_key": key,
        "extra": extra,
        "send_seed": not args.no_seed,
        "send_response_format": not args.no_response_format,
        "size": args.size,
        "image_field": args.image_field,
        "prompt_field": args.prompt_field,
        "timeout": args.timeout,
        "allow_local": args.allow_local,
    }


def _show(step: Step) -> None:
    if step.state == "running":
        return
    line = f"{MARKS[step.state]} {step.label}"
    if step.detail:
        line += f": {step.detail}"
    if step.state in ("warning", "failed"):
        line += f"\n    {step.advice}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _show_curl(options: dict[str, Any]) -> int:
    settings = Settings(**{k: v for k, v in options.items() if k != "allow_local"})
    try:
        find_contract(settings.contract).check(settings)
    except EditorError as error:
        sys.stderr.write(f"check-endpoint: {error}\n")
        return 2
    line = as_curl(settings, size=probe_picture().size, with_key=bool(settings.api_key))
    sys.stdout.write(line + "\n")
    return 0
