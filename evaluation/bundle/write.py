"""Write the bundle of a finished run, from the records of any store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from pydantic import ValidationError

from evaluation.analysis.events import Case
from evaluation.analysis.standings import MeasuredChain, ScoredTrip, measured_chain
from evaluation.bundle import document as bundles
from evaluation.bundle.document import BundleError
from evaluation.content.suites import Suite
from evaluation.metrics import METRICS, metric_class
from evaluation.records import (
    AuditRecord,
    CalibrationRecord,
    ChainRecord,
    FileRecord,
    ModelRecord,
    Record,
    RunRecord,
    SourceRecord,
    StandingNumbers,
    StandingRecord,
    TripMeasures,
    VoteRecord,
)

#: The fields of a standing (a run's results by one metric at one threshold), named alike in every
#: store.
STANDING = tuple(name for name in StandingNumbers.model_fields if name != "metric")
#: The details of a standing that can be understood without the other standings.
DETAILS = ("jpeg", "dynamics", "witnesses", "repeats")
#: The private options of an editor: an endpoint's address and key, and additional data sent to it.
PRIVATE = frozenset({"url", "headers", "api_key", "extra"})
#: The private entries of an editor's description in the run's provenance.
PRIVATE_FACTS = frozenset({"host", "url_sha256", "extra"})


class RunSource(Protocol):
    """A finished run, read as records from a folder or a database."""

    def suite(self) -> Mapping[str, Any]: ...
    def model(self) -> ModelRecord: ...
    def run(self) -> RunRecord: ...
    def sources(self) -> Iterable[SourceRecord]: ...
    def calibrations(self) -> Iterable[CalibrationRecord]: ...
    def chains(self) -> Iterable[ChainRecord]: ...
    def audits(self) -> Iterable[AuditRecord]: ...
    def votes(self) -> Iterable[VoteRecord]: ...
    def standings(self) -> Iterable[StandingRecord]: ...
    def images(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield hash, MIME type and bytes of every image of the run, each once."""
        ...


def write(source: RunSource, file: Path | IO[bytes], *, images: bool) -> dict[str, Any]:
    """Write the bundle; return its document with digests. One run always gives equal bytes.

    Raises BundleError if a record is invalid.
    """
    try:
        sealed = bundles.sealed(_document(source, images=images))
    except ValidationError as error:
        raise BundleError(bundles.invalid(error)) from None
    image_files = _image_files(source) if images else ()
    if not isinstance(file, Path):
        bundles.pack(file, sealed, image_files)
        return sealed
    part = file.with_name(f".{file.name}.part")
    try:
        bundles.pack(part, sealed, image_files)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return sealed


def _document(source: RunSource, *, images: bool) -> dict[str, Any]:
    return {
        "format": bundles.FORMAT,
        "images": images,
        "suite": {"definition": source.suite()},
        "model": source.model().model_dump(),
        "run": source.run().model_dump(),
        "sources": _dumped(source.sources()),
        "calibrations": _dumped(source.calibrations()),
        "chains": _dumped(source.chains()),
        "audits": _dumped(source.audits()),
        "votes": _dumped(source.votes()),
        "standings": _dumped(source.standings()),
    }


def _dumped(records: Iterable[Record]) -> list[dict[str, Any]]:
    return [record.model_dump() for record in records]


def _image_files(source: RunSource) -> Iterator[tuple[str, bytes]]:
    for sha256, mime, data in source.images():
        yield bundles.image_name(sha256, mime), data


# Functions that every store uses.


def file_fields(image: Any) -> dict[str, Any]:
    """Return the fields of FileRecord, read from the attributes of an image object."""
    return {name: getattr(image, name) for name in FileRecord.model_fields}


def trip_fields(
    number: int,
    forward: Mapping[str, Any] | None,
    backward: Mapping[str, Any] | None,
    measures: TripMeasures,
    scores: Mapping[str, float],
    between: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the fields of TripRecord; `between` has the edits between forward and backward."""
    edits = {"forward": forward, "backward": backward, "between": list(between)}
    return {"number": number, **edits, **measures.model_dump(), "scores": dict(scores)}


def standing_record(metric: str, numbers: Mapping[str, Any]) -> StandingRecord:
    """Return one standing of a run, without its rank."""
    details = {name: value for name, value in numbers["details"].items() if name in DETAILS}
    fields = {name: numbers[name] for name in STANDING}
    return StandingRecord.of({"metric": metric, "details": details, **fields})


def without_private(facts: Mapping[str, Any], private: frozenset[str] = PRIVATE) -> dict[str, Any]:
    """Return an editor's options or description without its private entries."""
    return {name: value for name, value in facts.items() if name not in private}


def text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def as_json(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers as JSON has them: with lists instead of tuples."""
    data: dict[str, Any] = json.loads(json.dumps(numbers))
    return data


def measured_chains(
    suite: Suite,
    metric: str,
    calibrations: Mapping[str, CalibrationRecord],
    chains: Sequence[ChainRecord],
) -> list[tuple[ChainRecord, MeasuredChain]] | None:
    """Return every chain to which this metric applies; None if it did not score all of them.

    Also None if the metric applies to no chain. `calibrations` are the metric's calibrations by
    image. Raises KeyError if a case is not in the suite.
    """
    cases = {case.slug: case for case in suite.cases}
    selective = metric in METRICS and metric_class(metric).selective
    pairs = []
    for line in chains:
        case = cases[line.case]
        calibration = calibrations.get(case.image)
        if calibration is None and selective:
            continue  # the metric does not apply, such as "identity" without a face
        chain = measured_chain(
            metric,
            Case.of(suite, case.image, case.pair),
            line.repeat,
            line.outcome,
            [
                ScoredTrip(t.number, t.scores.get(metric), t, scored=t.step is not None)
                for t in line.trips
            ],
            calibration.blank if calibration else None,
            calibration.ladder if calibration else {},
            suite.trips,
        )
        if chain is None:
            return None
        pairs.append((line, chain))
    return pairs or None
