"""Put the JSON Schemas of every `--json` output and every file of a run into the wheel."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SchemaHook(BuildHookInterface):
    """Generate the schemas for a wheel; an editable install has `convergebench schema`."""

    folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from evaluation.cli.commands.schema import write

        self.folder = Path(tempfile.mkdtemp(prefix="convergebench-schemas-"))
        write(self.folder)
        build_data["force_include"][str(self.folder)] = "convergebench/schemas"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.folder:
            shutil.rmtree(self.folder)
