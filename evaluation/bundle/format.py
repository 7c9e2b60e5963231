"""The run bundle: one zip with everything that a run's numbers rest on.

`bundle.json` holds the suite, every prompt, parameter, version, hash and score;
`pictures/<sha256>.<ext>` the pictures themselves, where they are included. Every
line carries a digest, so that an altered byte has a name. Bundles come from
strangers: `read` refuses whatever a bundle of ours would not hold.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, ValidationError

from evaluation.arms import Arm, ArmError
from evaluation.bundle.document_json import BYTES_PER_ITEM, as_number, as_written, parse_object
from evaluation.bundle.rows import Line, VoteLine
from evaluation.content import archives
from evaluation.content.archives import ArchiveError
from evaluation.content.shapes import MOST_STEPS
from evaluation.content.suites import Suite, SuiteError
from evaluation.errors import UserFacingError
from evaluation.images import EXTENSIONS, MAX_BYTES, MAX_PIXELS
from evaluation.metrics import scored_metrics
from evaluation.records import (
    Link,
    Many,
    Number,
    Record,
    SeedNumber,
    Sha256,
    Short,
    Slug,
    TripMeasures,
)

FORMAT = 2
DOCUMENT = "bundle.json"
NAME = re.compile(r"pictures/([0-9a-f]{64})\.(png|jpg|webp)")
# A suite of 300 cases and 20 trips makes 12,000 pictures and about 10 MB of JSON.
MAX_ENTRIES = 100_000
MAX_DIRECTORY = 32 * 2**20
MAX_DOCUMENT = 128 * 2**20
MAX_TOTAL = 64 * 2**30
# What our own zips are dated, so that the same run gives the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


class BundleError(UserFacingError):
    """A bundle that is not read."""


class SuiteLine(Line):
    definition: dict[str, Any]


class ModelLine(Line):
    """Who was measured; no key and no address of a private endpoint."""

    slug: Slug
    name: Annotated[str, StringConstraints(min_length=1, max_length=120)]
    provider: Annotated[str, StringConstraints(max_length=80)]
    organisation: Annotated[str, StringConstraints(max_length=120)]
    editor: Annotated[str, StringConstraints(max_length=60)]
    options: dict[str, Any]
    access: Annotated[str, StringConstraints(max_length=12)]
    open_weights: bool | None
    licence: Annotated[str, StringConstraints(max_length=120)]
    homepage: Link
    paper_url: Link
    code_url: Link
    price_per_edit: str | None
    is_reference: bool


class RunLine(Line):
    """How it was measured: the secret that drew the seeds, versions, and which metrics were pinned or missing.

    `earlier_secrets` were public before some chains were played again, the latest first;
    `stop_after` = trips that chains are played on after their end is known, 0: to the end; `arm`
    = how it was played where that is not the suite's own way.
    """

    secret: Sha256
    earlier_secrets: Many[Sha256] = []
    arm: dict[str, Any] = {}
    stop_after: Annotated[int, Field(ge=0, le=100)] = 0
    state: str
    source: str
    metrics: dict[Slug, dict[str, str]]
    provenance: dict[str, Any]
    flags: Many[Any]
    cleared: bool = False
    decision: Short = ""
    marks_kept: Number | None = None
    loss_under_audit: Number | None = None
    changed_elsewhere: Number | None = None
    orders: Many[dict[Slug, Number | str]] = []
    started_at: str | None
    finished_at: str | None
    calls: Annotated[int, Field(ge=0)]
    spent_usd: str
    method_version: str

    @property
    def secrets(self) -> list[str]:
        """All that something of the run was drawn by, the latest first."""
        return [self.secret, *self.earlier_secrets]

    @property
    def commitments(self) -> list[str]:
        """What was told of its secrets beforehand, in the order of time."""
        later = self.provenance.get("later")
        entries = [self.provenance, *(later if isinstance(later, list) else ())]
        told = [entry.get("secret_sha256") for entry in entries if isinstance(entry, dict)]
        return [sha256 for sha256 in told if sha256]


class FileRow(Record):
    """A picture's file."""

    sha256: Sha256
    mime: Literal["image/png", "image/jpeg", "image/webp"]
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    bytes: Annotated[int, Field(gt=0)]


class SourceLine(FileRow, Line):
    """The file of a prepared source picture."""

    slug: Slug


class CalibrationLine(Line):
    picture: Slug
    metric: Slug
    blank: Number
    ladder: dict[Annotated[str, StringConstraints(pattern=r"^\d{1,3}$")], Number]


class HalfRow(FileRow):
    """One edit: what was asked, and the picture that came back."""

    prompt: str
    seed: SeedNumber | None
    seconds: Number | None
    cost: str | None
    attempts: int
    notes: dict[str, Any]


class StepRow(HalfRow):
    """An edit between the first and the last of its trip."""

    name: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,2}-[A-Za-z]$")]


class TripLine(TripMeasures, Line):
    """`forward` is the first edit of the trip, `backward` the last; a shape has more between."""

    number: Annotated[int, Field(ge=1, le=1000)]
    forward: HalfRow | None
    backward: HalfRow | None
    between: Annotated[Many[StepRow], Field(max_length=MOST_STEPS)] = []
    scores: dict[Slug, Number]


class ChainLine(Line):
    case: Slug
    repeat: Annotated[int, Field(ge=0, le=1000)]
    outcome: Literal["completed", "known", "converged", "refused", "blank", "failed", "lost"]
    outcome_text: Short
    results: dict[Slug, dict[str, Any]]
    trips: Many[TripLine]
    quality: Annotated[
        dict[Slug, Annotated[list[Number | None], Field(max_length=1001)]], Field(max_length=64)
    ] = {}

    @property
    def name(self) -> str:
        return chain_name(self.case, self.repeat)


class AuditLine(Line):
    """One extra backward call on a touched answer; `outcome` is empty where its trip never came."""

    case: Slug
    repeat: Annotated[int, Field(ge=0, le=1000)]
    number: Annotated[int, Field(ge=1, le=1000)]
    kind: Literal["mark", "fragility"]
    outcome: Literal["", "answered", "refused", "failed"]
    words: Short
    seed: SeedNumber | None
    sent: FileRow | None
    answer: FileRow | None
    seconds: Number | None
    cost: str | None
    attempts: int
    finding: dict[Slug, Number | str | None]

    @property
    def name(self) -> str:
        return audit_name(self.case, self.repeat, self.number)


class StandingLine(Line):
    """What the board shows of the run, but its rank: that is a matter of the other runs."""

    metric: Slug
    level: Number
    scope: Annotated[str, StringConstraints(max_length=100)]
    half_life: Number | None
    half_life_low: Number | None
    half_life_high: Number | None
    has_interval: bool
    median: Number | None
    usable_trips: Number
    usable_trips_low: Number | None
    usable_trips_high: Number | None
    auc: Number | None
    auc_low: Number | None
    auc_high: Number | None
    usable_by_trip: Many[Number | None]
    curve: dict[str, Many[Number | None]]
    survival: Many[Number | None]
    incidence: dict[Slug, Many[Number | None]]
    counts: dict[str, Any]
    details: dict[str, Any]


class Document(Record):
    """All of bundle.json."""

    format: Literal[2]
    pictures: bool
    suite: SuiteLine
    model: ModelLine
    run: RunLine
    sources: Many[SourceLine]
    calibrations: Many[CalibrationLine]
    chains: Many[ChainLine]
    audits: Many[AuditLine] = []
    votes: Many[VoteLine] = []
    standings: Many[StandingLine]
    digest: Sha256


def chain_name(case: str, repeat: int) -> str:
    return f"{case} (repeat {repeat + 1})" if repeat else case


def audit_name(case: str, repeat: int, number: int) -> str:
    return f"audit of {chain_name(case, repeat)}, trip {number}"


def standing_name(metric: str, level: float, scope: str) -> str:
    return f"standing {metric} at {level:g}, {scope}"


def digest(row: Mapping[str, Any]) -> str:
    """SHA-256 of a line, without its own digest and without the lines inside it."""
    own = {key: value for key, value in row.items() if key not in ("digest", "trips")}
    text = json.dumps(own, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def lines(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every line of bundle.json with its name, in order."""
    for section in ("suite", "model", "run"):
        yield section, document[section]
    for row in document["sources"]:
        yield f"source {row['slug']}", row
    for row in document["calibrations"]:
        yield f"calibration {row['picture']} by {row['metric']}", row
    for chain in document["chains"]:
        name = chain_name(chain["case"], chain["repeat"])
        for trip in chain["trips"]:
            yield f"{name}, trip {trip['number']}", trip
        yield f"chain {name}", chain
    for row in document.get("audits", ()):
        yield audit_name(row["case"], row["repeat"], row["number"]), row
    for number, row in enumerate(document.get("votes", ()), start=1):
        yield f"vote {number}", row
    for row in document["standings"]:
        yield standing_name(row["metric"], float(row["level"]), row["scope"]), row


def whole(document: Mapping[str, Any]) -> str:
    """The digest of all lines: what tells one bundle from another, and a line left out."""
    text = "\n".join(f"{name} {digest(row)}" for name, row in lines(document))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the digest of every line and of the whole."""
    copy: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    for _, row in lines(copy):
        row["digest"] = digest(row)
    copy["digest"] = whole(copy)
    return copy


def picture_name(sha256: str, mime: str) -> str:
    return f"pictures/{sha256}.{EXTENSIONS[mime]}"


def write(
    file: Path | IO[bytes], document: Mapping[str, Any], pictures: Iterable[tuple[str, bytes]] = ()
) -> None:
    """The bundle of a sealed document and its pictures by name; the same input, the same bytes."""
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with zipfile.ZipFile(file, "w") as archive:
        _add(archive, DOCUMENT, text.encode(), zipfile.ZIP_DEFLATED)
        for name, data in pictures:
            _add(archive, name, data, zipfile.ZIP_STORED)


def _add(archive: zipfile.ZipFile, name: str, data: bytes, method: int) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.create_system, info.external_attr, info.compress_type = 3, 0o644 << 16, method
    archive.writestr(info, data)


class Bundle:
    """A checked bundle. Pictures are read one at a time, when they are asked for."""

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
        #: As it was written, for digests: a number in other digits than ours is a text here.
        self.raw = _parsed(data, max_document, as_written)
        try:
            self.document = Document.model_validate(_parsed(data, max_document, as_number))
            self.suite = _suite(self.document.suite.definition)
            self.arm = Arm.from_dict(self.document.run.arm)
            if odd := self.arm.prompts.keys() - self.suite.pair_by_slug.keys():
                raise BundleError(f"{DOCUMENT}, run.arm: {min(odd)[:80]} is no pair of the suite")
        except ArmError as error:
            raise BundleError(f"{DOCUMENT}, run.arm: {error}") from None
        except ValidationError as error:
            raise BundleError(said(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._archive.close()

    @cached_property
    def digest(self) -> str:
        """What this bundle says, as one number; computed, whatever it states."""
        return whole(self.raw)

    @property
    def scored_metrics(self) -> list[str]:
        """The metrics that the run was scored by; those that were not run are not among them."""
        return scored_metrics(self.document.run.metrics)

    @property
    def held(self) -> frozenset[str]:
        """The SHA-256 in the names of the pictures that are here."""
        return frozenset(self._entries)

    def picture(self, sha256: str) -> bytes | None:
        """The bytes under this name; None where they are not in the bundle."""
        info = self._entries.get(sha256)
        return None if info is None else _content(self._archive, info, MAX_BYTES)


def read(
    file: Path | IO[bytes],
    *,
    max_directory: int = MAX_DIRECTORY,
    max_document: int = MAX_DOCUMENT,
    max_pixels: int = MAX_PIXELS,
) -> Bundle:
    """The bundle in this file; BundleError says what is wrong with it.

    Of a stranger's less is read: `max_document` bytes of JSON, pictures of `max_pixels`.
    """
    name = file.name if isinstance(file, Path) else "the file"
    try:
        archive = archives.open_archive(file, max_directory=max_directory)
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
    """Refuse whatever a bundle does not hold: odd names, links, bombs, secrets."""
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise BundleError(f"the bundle has {len(entries):,} entries; the limit is {MAX_ENTRIES:,}")
    seen: set[str] = set()
    for info in entries:
        # zipfile cuts names at a zero byte; the name as it stands in the file counts.
        name = info.orig_filename
        if name != DOCUMENT and not NAME.fullmatch(name):
            raise BundleError(f"the bundle has an entry called {name[:200]!r}, which no bundle has")
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
        found = parse_object(data, max_document // BYTES_PER_ITEM, number)
    except ValueError as error:
        raise BundleError(f"{DOCUMENT} is not readable JSON: {error}") from None
    if found.get("format") != FORMAT:
        raise BundleError(f"this is not a run bundle of format {FORMAT}")
    return found


def _suite(definition: Mapping[str, Any]) -> Suite:
    """The suite as it is here; whether its hash is the stated one is for `verify` to say."""
    try:
        return Suite.from_dict({k: v for k, v in definition.items() if k != "content_hash"})
    except (SuiteError, AttributeError) as error:
        raise BundleError(f"{DOCUMENT}, suite: {error}") from None


def said(error: ValidationError) -> str:
    """The first thing that does not fit, and where it stands."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{DOCUMENT}, {place}: {first['msg']}{more}"
