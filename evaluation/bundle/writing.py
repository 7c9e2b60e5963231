"""How a bundle is written, by the site of its rows and by the shell of a run folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from evaluation.bundle import format as bundles
from evaluation.bundle.format import BundleError, Document, FileRow, StandingLine
from evaluation.records import TripMeasures

STANDING = tuple(
    name for name in StandingLine.model_fields if name not in ("digest", "metric", "details")
)
#: Of a standing's details, those that need no other rows to be understood.
DETAILS = ("jpeg", "dynamics", "shape", "labels", "witnesses", "repeats")
#: Options that are nobody else's business: where a private endpoint is, and what it is sent.
PRIVATE = frozenset({"url", "headers", "api_key", "extra"})
#: The same of what an editor says of itself.
PRIVATE_FACTS = frozenset({"host", "url_sha256", "extra"})


def file_row(picture: Any) -> dict[str, Any]:
    """The file of a picture; `picture` is anything that has these names."""
    return {name: getattr(picture, name) for name in FileRow.model_fields}


def trip_line(
    number: int,
    forward: Mapping[str, Any] | None,
    backward: Mapping[str, Any] | None,
    measures: TripMeasures,
    scores: Mapping[str, float],
    between: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """One trip of a chain; `between` are its edits but the first and the last."""
    edits = {"forward": forward, "backward": backward, "between": list(between)}
    return {"number": number, **edits, **measures.model_dump(), "scores": dict(scores)}


def quality_of(chain: Any) -> dict[str, Any]:
    """What no-reference metrics say of a chain; nothing where none was run: its line stays as it was."""
    found = {name: list(values) for name, values in chain.quality.items()}
    return {"quality": found} if found else {}


def standing_line(metric: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """One standing of a run, without its rank."""
    details = {name: value for name, value in numbers["details"].items() if name in DETAILS}
    return {"metric": metric, "details": details} | {name: numbers[name] for name in STANDING}


def public(facts: Mapping[str, Any], private: frozenset[str] = PRIVATE) -> dict[str, Any]:
    """What everybody may read of an editor's options or of what it says of itself."""
    return {name: value for name, value in facts.items() if name not in private}


def write(
    file: Path | IO[bytes], document: Mapping[str, Any], pictures: Iterable[tuple[str, bytes]] = ()
) -> dict[str, Any]:
    """Seal the document and write the bundle; the same input, the same bytes.

    BundleError where `read` would not take it: better told to whoever writes it.
    """
    sealed = bundles.sealed(document)
    try:
        Document.model_validate(sealed)
    except ValidationError as error:
        raise BundleError(bundles.said(error)) from None
    bundles.write(file, sealed, pictures)
    return sealed
