"""The run bundle: one zip with all data behind a run's numbers.

`bundle.json` contains the suite and every prompt, parameter, version, hash and score, as the
records of `evaluation.records`. The images, if included, are in `images/<sha256>.<ext>`. Every
"line" (a record or a trip) has its own digest, so that an altered byte can be located. Bundles are
untrusted: `read` refuses everything that our writer does not write.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, Self

from pydantic import ValidationError

from evaluation.arms import Arm, ArmError
from evaluation.content import archives
from evaluation.content.archives import ArchiveError
from evaluation.content.suites import Suite, SuiteError
from evaluation.errors import UserFacingError
from evaluation.images import EXTENSIONS, MAX_BYTES, MAX_PIXELS
from evaluation.metrics import scored_metrics
from evaluation.records import (
    AuditRecord,
    CalibrationRecord,
    ChainRecord,
    Many,
    ModelRecord,
    Record,
    RunRecord,
    Sha256,
    SourceRecord,
    StandingRecord,
    VoteRecord,
    chain_name,
)
from evaluation.untrusted_json import finite, parse_strictly

FORMAT = 2
DOCUMENT = "bundle.json"
NAME = re.compile(r"images/([0-9a-f]{64})\.(png|jpg|webp)")
# A suite of 300 cases and 20 trips makes 12,000 images and about 10 MB of JSON.
MAX_ENTRIES = 100_000
MAX_DOCUMENT = 128 * 2**20
MAX_TOTAL = 64 * 2**30
#: The smallest accepted average length of a JSON item (object, list or member), in bytes of text:
#: each item takes up to a few hundred bytes of memory. Items of our own bundles have 20 bytes.
BYTES_PER_ITEM = 12
#: The maximum number of members of one object (metrics, pairs, thresholds): each invalid member
#: adds an error.
MAX_KEYS = 2_000
# All zip entries have this date, so that bundles of one run are equal byte for byte.
EPOCH = (1980, 1, 1, 0, 0, 0)


class BundleError(UserFacingError):
    """A bundle cannot be read or written; the message is the reason."""


class SuiteRecord(Record):
    definition: dict[str, Any]


class Document(Record):
    """The content of bundle.json without the `digest` of each record and trip."""

    format: Literal[2]
    images: bool
    suite: SuiteRecord
    model: ModelRecord
    run: RunRecord
    sources: Many[SourceRecord]
    calibrations: Many[CalibrationRecord]
    chains: Many[ChainRecord]
    audits: Many[AuditRecord] = []
    votes: Many[VoteRecord] = []
    standings: Many[StandingRecord]
    digest: Sha256


def standing_name(metric: str, threshold: float, scope: str) -> str:
    return f"standing {metric} at {threshold:g}, {scope}"


def digest(row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a line without its `digest` and `trips`; trips are lines themselves."""
    content = {key: value for key, value in row.items() if key not in ("digest", "trips")}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def lines(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every line of bundle.json with its name, in order."""
    for section in ("suite", "model", "run"):
        yield section, document[section]
    for row in document["sources"]:
        yield f"source {row['slug']}", row
    for row in document["calibrations"]:
        yield f"calibration {row['image']} by {row['metric']}", row
    for chain in document["chains"]:
        name = chain_name(chain["case"], chain["repeat"])
        for trip in chain["trips"]:
            yield f"{name}, trip {trip['number']}", trip
        yield f"chain {name}", chain
    for row in document.get("audits", ()):
        yield f"audit of {chain_name(row['case'], row['repeat'])}, trip {row['number']}", row
    for number, row in enumerate(document.get("votes", ()), start=1):
        yield f"vote {number}", row
    for row in document["standings"]:
        yield standing_name(row["metric"], float(row["threshold"]), row["scope"]), row


def bundle_digest(document: Mapping[str, Any]) -> str:
    """Return the digest of all lines, which identifies a bundle."""
    text = "\n".join(f"{name} {digest(row)}" for name, row in lines(document))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the document with the digests of every line and of the bundle."""
    copy: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    for _, row in lines(copy):
        row["digest"] = digest(row)
    copy["digest"] = bundle_digest(copy)
    return copy


def image_name(sha256: str, mime: str) -> str:
    return f"images/{sha256}.{EXTENSIONS[mime]}"


def pack(
    file: Path | IO[bytes], document: Mapping[str, Any], images: Iterable[tuple[str, bytes]] = ()
) -> None:
    """Write the zip of a document with digests, and its images; equal input gives equal bytes."""
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with zipfile.ZipFile(file, "w") as archive:
        _add(archive, DOCUMENT, text.encode(), zipfile.ZIP_DEFLATED)
        for name, data in images:
            _add(archive, name, data, zipfile.ZIP_STORED)


def _add(archive: zipfile.ZipFile, name: str, data: bytes, method: int) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.create_system, info.external_attr, info.compress_type = 3, 0o644 << 16, method
    archive.writestr(info, data)


class Bundle:
    """An open bundle with a valid document. Images are read one at a time, on request."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        max_document: int = MAX_DOCUMENT,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self._archive, self.max_pixels = archive, max_pixels
        self._entries = {
            match[1]: info
            for info in archive.infolist()
            if (match := NAME.fullmatch(info.filename))
        }
        data = _content(archive, archive.getinfo(DOCUMENT), max_document)
        #: The document for computing digests. Numbers that our writer would format differently are
        #: strings here.
        self.raw = _parsed(data, max_document, _as_written)
        try:
            records = _without_digests(_parsed(data, max_document, finite))
            self.document = Document.model_validate(records)
            self.suite = _suite(self.document.suite.definition)
            self.arm = Arm.from_dict(self.document.run.arm)
            if unknown := self.arm.prompts.keys() - self.suite.pair_by_slug.keys():
                raise BundleError(
                    f"{DOCUMENT}, run.arm: {min(unknown)[:80]} is not a pair of the suite"
                )
        except ArmError as error:
            raise BundleError(f"{DOCUMENT}, run.arm: {error}") from None
        except ValidationError as error:
            raise BundleError(invalid(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._archive.close()

    @cached_property
    def digest(self) -> str:
        """The digest of all lines, computed from them (`document.digest` is the stated one)."""
        return bundle_digest(self.raw)

    @property
    def scored_metrics(self) -> list[str]:
        """The metrics that scored the run."""
        return scored_metrics(self.document.run.metrics)

    @property
    def image_hashes(self) -> frozenset[str]:
        """The SHA-256 hashes in the names of the bundle's images."""
        return frozenset(self._entries)

    def image(self, sha256: str) -> bytes | None:
        """Return the bytes of an image; None if it is not in the bundle."""
        info = self._entries.get(sha256)
        return None if info is None else _content(self._archive, info, MAX_BYTES)


def read(
    file: Path | IO[bytes],
    *,
    max_entries: int = MAX_ENTRIES,
    max_document: int = MAX_DOCUMENT,
    max_pixels: int = MAX_PIXELS,
) -> Bundle:
    """Open the bundle in this file. Raises BundleError naming the problem.

    The limits are on entries of the zip, bytes of JSON, and pixels per image. Pass lower limits for
    untrusted uploads.
    """
    name = file.name if isinstance(file, Path) else "the file"
    try:
        archive = archives.open_archive(file, max_entries=max_entries)
    except ArchiveError as error:
        raise BundleError(f"{name} is not a bundle: {error}") from None
    try:
        size = file.stat().st_size if isinstance(file, Path) else file.seek(0, 2)
        _check_entries(archive, size)
        return Bundle(archive, max_document, max_pixels)
    except ArchiveError as error:
        archive.close()
        raise BundleError(str(error)) from None
    except BaseException:
        archive.close()
        raise


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse entries that no bundle has: odd names, links, zip bombs, encrypted files."""
    entries = archive.infolist()
    seen: set[str] = set()
    for info in entries:
        # `info.filename` ends at the first zero byte, so check the original name.
        name = info.orig_filename
        if name != DOCUMENT and not NAME.fullmatch(name):
            raise BundleError(f"the bundle has an unexpected entry {name[:200]!r}")
        archives.check_entry(info, name, MAX_DOCUMENT if name == DOCUMENT else MAX_BYTES)
        if name in seen:
            raise BundleError(f"the bundle has {name!r} twice")
        seen.add(name)
    if DOCUMENT not in seen:
        raise BundleError(f"the zip file has no {DOCUMENT}: it is not a run bundle")
    archives.check_overlap(archive, size)
    if (total := sum(info.file_size for info in entries)) > MAX_TOTAL:
        raise BundleError(f"the bundle unpacks to {total:,} bytes; the limit is {MAX_TOTAL:,}")


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    try:
        return archives.content(archive, info, info.filename, limit)
    except ArchiveError as error:
        raise BundleError(str(error)) from None


def _parsed(data: bytes, max_document: int, number: Callable[[str], Any]) -> dict[str, Any]:
    try:
        parsed = parse_strictly(
            data.decode(),
            max_items=max_document // BYTES_PER_ITEM,
            max_keys=MAX_KEYS,
            number=number,
        )
        if not isinstance(parsed, dict):
            raise ValueError("it is not an object")
    except ValueError as error:
        raise BundleError(f"{DOCUMENT} is not readable JSON: {error}") from None
    if parsed.get("format") != FORMAT:
        raise BundleError(f"this is not a run bundle of format {FORMAT}")
    return parsed


def _without_digests(document: dict[str, Any]) -> dict[str, Any]:
    """Remove the digest of every line; digests are checked against the raw lines."""
    for section in document.values():
        for row in section if isinstance(section, list) else [section]:
            if isinstance(row, dict):
                row.pop("digest", None)
                trips = row.get("trips")
                for trip in trips if isinstance(trips, list) else ():
                    if isinstance(trip, dict):
                        trip.pop("digest", None)
    return document


def _as_written(digits: str) -> float | str:
    """Parse a number, but keep its text if our writer would format it differently."""
    value = finite(digits)
    return value if repr(value) == digits else digits


def _suite(definition: Mapping[str, Any]) -> Suite:
    """Return the suite; its stated hash is ignored, because `verify` compares it."""
    try:
        return Suite.from_dict({k: v for k, v in definition.items() if k != "content_hash"})
    except (SuiteError, AttributeError) as error:
        raise BundleError(f"{DOCUMENT}, suite: {error}") from None


def invalid(error: ValidationError) -> str:
    """Return a message that names the first invalid field."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{DOCUMENT}, {field}: {first['msg']}{more}"
