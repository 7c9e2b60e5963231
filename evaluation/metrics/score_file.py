"""Score files: CSV or JSON with values of no-reference metrics that were computed elsewhere.

Each row names an image of a run by the SHA-256 of its file, or by case, repeat and trip (0 is the
source). The row also contains a metric, its value (empty if not run) and its version:

    sha256,metric,value,version
    case,repeat,trip,metric,value,version[,higher_is_better]

A metric that Banana100 does not list needs `higher_is_better`. JSON files are lists of such rows.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from evaluation.errors import UserFacingError
from evaluation.metrics import METRICS
from evaluation.metrics.no_reference import WORN, value_scale
from evaluation.untrusted_json import can_be_stored, parse_strictly

MAX_BYTES = 64 * 2**20
MAX_ROWS = 500_000
MAX_METRICS = 40
#: The largest number of metrics from all score files of one run.
MAX_IN_RUN = 60
MAX_VALUE = 1e6
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
HASH = re.compile(r"[0-9a-f]{64}")
FIELDS = {"sha256", "case", "repeat", "trip", "metric", "value", "version", "higher_is_better"}
MAX_COUNT = {"repeat": 1000, "trip": 1000}

#: An image of a run, named by its hash, or by case, repeat and trip.
Key = str | tuple[str, int, int]


class ScoreFileError(UserFacingError):
    """An invalid score file; the message names the line and the field."""


@dataclass(frozen=True)
class Row:
    line: str
    image: Key
    metric: str
    value: float | None


@dataclass(frozen=True)
class ScoreFile:
    """A checked score file."""

    rows: tuple[Row, ...]
    #: For each metric, its version, its direction and the SHA-256 of the score file.
    metrics: Mapping[str, Mapping[str, Any]]


@dataclass
class ChainImages:
    """The images of one chain by their hashes, with values of no-reference metrics."""

    case: str
    repeat: int
    source: str
    #: The hashes of X1..Xn.
    restored: tuple[str, ...]
    quality: dict[str, list[float | None]] = field(default_factory=dict)


def read_score_file(file: Path) -> ScoreFile:
    """Read a score file. Raises ScoreFileError naming the first invalid line and field."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ScoreFileError(f"{file.name} is larger than {MAX_BYTES // 2**20} MB")
        data = file.read_bytes()
    except OSError as error:
        raise ScoreFileError(f"{file} cannot be read: {error.strerror}") from None
    return parse(data, file.name)


def parse(data: bytes, name: str) -> ScoreFile:
    """Parse a score file: JSON if its text begins with [, else CSV."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScoreFileError(f"{name} is not text in UTF-8") from None
    given_rows = _json_rows(text, name) if text.lstrip().startswith("[") else _csv_rows(text, name)
    rows: list[Row] = []
    metrics: dict[str, dict[str, Any]] = {}
    digest = sha256(data).hexdigest()
    for line, values in given_rows:
        if len(rows) == MAX_ROWS:
            raise ScoreFileError(f"{name} has more than {MAX_ROWS:,} rows")
        row = Row(line, _image(line, values), _metric(line, values), _value(line, values))
        pin: dict[str, Any] = {"version": _version(line, values), "file": digest}
        pin |= {"higher_is_better": _direction(line, row.metric, values)}
        if metrics.setdefault(row.metric, pin) != pin:
            raise ScoreFileError(
                f"{line}: version or higher_is_better of {row.metric} differs from earlier rows"
            )
        if len(metrics) > MAX_METRICS:
            raise ScoreFileError(f"{line}: more than {MAX_METRICS} metrics")
        rows.append(row)
    if not rows:
        raise ScoreFileError(f"{name} has no rows")
    return ScoreFile(tuple(rows), metrics)


def _csv_rows(text: str, name: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        _check_fields(f"{name}, line 1", reader.fieldnames or ())
        for values in reader:
            line = f"{name}, line {reader.line_num}"
            if None in values or None in values.values():
                raise ScoreFileError(f"{line}: this line has more or fewer fields than line 1")
            yield line, values
    except csv.Error as error:
        raise ScoreFileError(f"{name}, line {reader.line_num}: {error}") from None


def _json_rows(text: str, name: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    try:
        objects = parse_strictly(text)
    except ValueError as error:
        raise ScoreFileError(f"{name} is not readable JSON: {error}") from None
    for number, values in enumerate(objects, start=1):
        line = f"{name}, row {number}"
        if not isinstance(values, dict):
            raise ScoreFileError(f"{line}: the row is not a JSON object")
        _check_fields(line, values)
        yield line, values


def _check_fields(line: str, names: Iterable[str]) -> None:
    given = set(names)
    if unknown := given - FIELDS:
        raise ScoreFileError(
            f"{line}: the field {str(min(unknown, key=str))[:40]!r} is unknown; fields are "
            f"{', '.join(sorted(FIELDS))}"
        )
    if missing := {"metric", "value", "version"} - given:
        raise ScoreFileError(f"{line}: the field {min(missing)} is missing")
    if "sha256" not in given and not {"case", "trip"} <= given:
        raise ScoreFileError(f"{line}: a row must name its image by sha256, or by case and trip")


def _image(line: str, values: Mapping[str, Any]) -> Key:
    if stated := str(values.get("sha256") or "").lower():
        if not HASH.fullmatch(stated):
            raise ScoreFileError(f"{line}, sha256: {stated[:20]!r} is not 64 hexadecimal digits")
        return stated
    case = str(values.get("case") or "")
    if not case:
        raise ScoreFileError(f"{line}, case: give a case, or a sha256 instead")
    if not can_be_stored(case):
        raise ScoreFileError(f"{line}, case: the name contains a NUL byte")
    return case[:200], _count(line, values, "repeat"), _count(line, values, "trip")


def _count(line: str, values: Mapping[str, Any], name: str) -> int:
    text = str(values.get(name) if values.get(name) is not None else "0") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= MAX_COUNT[name]):
        raise ScoreFileError(
            f"{line}, {name}: {text[:20]!r} is not a number from 0 to {MAX_COUNT[name]}"
        )
    return int(text)


def _metric(line: str, values: Mapping[str, Any]) -> str:
    name = str(values.get("metric") or "")
    if not NAME.fullmatch(name):
        raise ScoreFileError(
            f"{line}, metric: {name[:40]!r} is not a name of lower-case letters, digits, - and _"
        )
    if name in METRICS or name == WORN:
        raise ScoreFileError(
            f"{line}, metric: ConvergeBench computes {name} itself; choose another name for your "
            f"values, such as {name}-pyiqa"
        )
    return name


def _value(line: str, values: Mapping[str, Any]) -> float | None:
    stated = values.get("value")
    if stated is None or stated == "":
        return None
    try:
        number = float(stated) if isinstance(stated, str | int | float) else math.nan
    except ValueError:
        number = math.nan
    if isinstance(stated, bool) or not abs(number) <= MAX_VALUE:
        raise ScoreFileError(
            f"{line}, value: {str(stated)[:20]!r} is not a number up to {MAX_VALUE:,.0f}"
        )
    return number


def _version(line: str, values: Mapping[str, Any]) -> str:
    version = str(values.get("version") or "").strip()
    if not 0 < len(version) <= 80 or not version.isprintable():
        raise ScoreFileError(f"{line}, version: a version of at most 80 characters is required")
    return version


def _direction(line: str, metric: str, values: Mapping[str, Any]) -> bool:
    stated = str(values.get("higher_is_better") if "higher_is_better" in values else "").lower()
    words = {"": None, "none": None, "true": True, "1": True, "yes": True}
    words |= {"false": False, "0": False, "no": False}
    if stated not in words:
        raise ScoreFileError(f"{line}, higher_is_better: {stated[:20]!r} is not true or false")
    scale = value_scale(metric, {"higher_is_better": words[stated]})
    if scale is None:
        raise ScoreFileError(
            f"{line}, higher_is_better: state whether higher values of {metric} are better"
        )
    if words[stated] not in (None, scale.higher_is_better):
        raise ScoreFileError(
            f"{line}, higher_is_better: {scale.label} is better when "
            f"{'higher' if scale.higher_is_better else 'lower'}"
        )
    return scale.higher_is_better


def place_values(score_file: ScoreFile, chains: Iterable[ChainImages]) -> None:
    """Add the values to their chains.

    Raises ScoreFileError if the run lacks an image, or if two rows contradict each other.
    """
    by_key: dict[Key, list[tuple[ChainImages, int]]] = {}
    for chain in chains:
        for number, digest in enumerate((chain.source, *chain.restored)):
            by_key.setdefault(digest, []).append((chain, number))
            by_key.setdefault((chain.case, chain.repeat, number), []).append((chain, number))
    values_by_image: dict[tuple[Key, str], float | None] = {}
    for row in score_file.rows:
        targets = by_key.get(row.image)
        if not targets:
            which, name = (
                ("sha256", f"{row.image[:12]}…")
                if isinstance(row.image, str)
                else ("case", "{} (repeat {}), trip {}".format(*row.image))
            )
            raise ScoreFileError(f"{row.line}, {which}: the run has no image {name}")
        if values_by_image.setdefault((row.image, row.metric), row.value) != row.value:
            raise ScoreFileError(
                f"{row.line}, value: an earlier row has another value of {row.metric} for this image"
            )
        for chain, number in targets:
            values = chain.quality.setdefault(row.metric, [None] * (len(chain.restored) + 1))
            values[number] = row.value
