"""The files of a run folder."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from evaluation.play.run_folder import PlayedChain
from evaluation.play.run_scores import RunScores

__all__ = ["CallLine", "PlayedChain", "RunFile", "RunScores"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RunFile(Strict):
    """RUN/run.json: who played which suite, and every chain."""

    format: Literal[3]
    editor: str = Field(description="A registered editor, or the place of an own one.")
    options: dict[str, Any] = Field(description="As given; a key is never among them.")
    secret: str = Field(description="Seeds, order and audits are drawn by it.")
    begun: str
    ended: str | None = None
    name: str | None = None
    slug: str | None = None
    stop_after: int = Field(0, description="Trips played on after a chain's end is known; 0: all.")
    arm: dict[str, Any] = Field({}, description="How it was played, where not the suite's own way.")
    provenance: dict[str, Any] = Field(description="Versions, and what the editor says of itself.")
    suite: dict[str, Any] = Field(description="The whole suite file.")
    chains: list[PlayedChain] = Field([], description="Once playing has ended or paused.")


class CallLine(Strict):
    """A line of RUN/calls.jsonl: one call to the editor, also one that failed."""

    at: str
    chain: str
    number: int
    direction: str = Field(
        pattern="^(forward|backward|audit|[0-9]{1,2}-[A-Za-z])$",
        description="Forward and backward are the first and last step of a trip, 2-B one between.",
    )
    attempt: int
    seconds: float
    ended: str = Field(description='"answer", "refused", or the kind of error.')
    cost: float | None
    message: str = Field("", description="What the error says.")
