"""`convergebench check-endpoint URL`: the test (probe) that the submission page makes."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import fields
from typing import Any

from pydantic import BaseModel, Field

from evaluation.cli.editors import add_options, check_options, endpoint_options
from evaluation.cli.printing import Output, echo, echo_json
from evaluation.editors import editor_class
from evaluation.editors.contracts import Settings, as_curl, find_contract
from evaluation.measuring.probe import ProbeReport, Step, probe_image, probe_steps

HELP = "send one small image through an endpoint and report whether it works"
EPILOG = """\
examples:
  convergebench check-endpoint http://localhost:8000/v1 --allow-local
  convergebench check-endpoint https://api.example.org/v1 --key-env API_KEY --option model=NAME
  convergebench check-endpoint URL --option send_seed=false --curl
`convergebench list editors endpoint` lists the options; `run --endpoint` takes the same."""
MARKS = {"passed": "✓", "warning": "!", "failed": "✗", "skipped": "-"}


class ProbeStep(BaseModel):
    """One step of the probe."""

    name: str
    label: str
    state: str = Field(description='"passed", "warning", "failed" or "skipped".')
    detail: str
    advice: str
    data: dict[str, Any] = Field(description="The measurements of this step.")


class CheckEndpointOutput(Output):
    """Output of `check-endpoint --json`."""

    schema_name = "check-endpoint"
    ok: bool
    seconds: float
    steps: list[ProbeStep]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="base URL of the API, or the full address")
    add_options(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the report as JSON")
    output.add_argument(
        "--curl", action="store_true", help="print the request as a curl command; send nothing"
    )


def run(args: argparse.Namespace) -> int:
    """Print the steps as they happen; return 0 if none failed."""
    options = endpoint_options(args, args.url)
    check_options("the endpoint", editor_class("endpoint"), options)
    if args.curl:
        _show_curl(options)
        return 0
    start, steps = time.monotonic(), dict[str, Step]()
    for step in probe_steps(options, stranger=False):
        steps[step.name] = step
        if not args.json:
            _show(step)
    report = ProbeReport(tuple(steps.values()), time.monotonic() - start)
    if args.json:
        echo_json(CheckEndpointOutput(**report.to_dict()))
    else:
        echo(f"\nThe endpoint {'works' if report.ok else 'does not work yet'}.")
    return 0 if report.ok else 1


def _show(step: Step) -> None:
    if step.state == "running":
        return
    line = f"{MARKS[step.state]} {step.label}"
    if step.detail:
        line += f": {step.detail}"
    if step.state in ("warning", "failed"):
        line += f"\n    {step.advice}"
    echo(line)
    sys.stdout.flush()


def _show_curl(options: dict[str, Any]) -> None:
    names = {field.name for field in fields(Settings)}
    settings = Settings(**{name: value for name, value in options.items() if name in names})
    find_contract(settings.contract).check(settings)
    echo(as_curl(settings, size=probe_image().size, with_key=bool(settings.api_key)))
