"""A run as a folder, which the shell plays, scores, reports and bundles.

    RUN/run.json                                  suite, editor, secret, versions
    RUN/calls.jsonl                               every call, including failed calls
    RUN/scores.json                               written by `convergebench score`
    RUN/chains/CASE/chain.json                    the chain's edits, in the order played
    RUN/chains/CASE/I0_source.png, I1_forward.png, I1_backward.png, ...
    RUN/chains/CASE/I1_2-B.png                    the second step of a trip of more than two steps
    RUN/chains/CASE/A2_sent.png, A2_answer.png    an audit of trip 2; A0 is a cold audit

An audit is an extra request that tests the editor for cheating. A cold audit is sent before the
first trip, with an image that the editor has not seen.

Each file is written under a temporary name and renamed, and each image is written before the
chain.json that names it. So a run can be continued after a crash.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evaluation.arms import DEFAULT, Arm
from evaluation.audits.cold import Cold
from evaluation.audits.plan import Audit, Kind
from evaluation.audits.touch import Touch
from evaluation.content import sources
from evaluation.content.chain_files import SOURCE, answer_name
from evaluation.content.shapes import BACKWARD, FORWARD
from evaluation.content.suites import Case, EditPair, Suite, SuiteError, SuiteImage
from evaluation.editors.base import Answer, Refused, Turn
from evaluation.errors import EditorError, UserFacingError, first_error
from evaluation.images import EXTENSIONS, MAX_BYTES, EncodedImage, ImageError
from evaluation.play.plan import Plan, Position
from evaluation.play.retries import Attempt
from evaluation.play.round_trips import AnsweredStep, history
from evaluation.records import Number, Record
from evaluation.run_secret import chain_seeds, new_secret
from evaluation.untrusted_json import parse_strictly, read_json_file, storable

FORMAT: Final = 3
#: Names of image files. A run may come from an untrusted person, so no path may leave its folder.
FILE = re.compile(r"[A-Za-z0-9_-]+\.[a-z]{3,4}")


@dataclass(frozen=True)
class PlayedEdit:
    """One edit of a chain, as in chain.json."""

    number: int
    direction: str
    file: str
    sha256: str
    mime: str
    width: int
    height: int
    seed: int | None
    seconds: float
    cost: float | None
    notes: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__ = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class PlayedAudit:
    """One audit of a chain, as in chain.json; without an answer, `file` and `sha256` are empty."""

    number: int
    kind: Kind
    words: str
    seed: int
    sent: str
    outcome: str
    file: str = ""
    sha256: str = ""
    seconds: float = 0.0
    cost: float | None = None

    __pydantic_config__ = ConfigDict(extra="forbid")

    @property
    def files(self) -> tuple[str, ...]:
        return (self.sent, self.file) if self.file else (self.sent,)


@dataclass(frozen=True)
class PlayedChain:
    """A chain as in chain.json; `outcome` is empty until the chain has ended."""

    image: str
    pair: str
    repeat: int = 0
    outcome: str = ""
    reason: str = ""
    edits: tuple[PlayedEdit, ...] = ()
    audits: tuple[PlayedAudit, ...] = ()

    __pydantic_config__ = ConfigDict(extra="forbid")

    @property
    def case(self) -> str:
        return Case(self.image, self.pair).slug

    @property
    def slug(self) -> str:
        return chain_slug(self.case, self.repeat)

    @property
    def answers(self) -> tuple[PlayedEdit, ...]:
        """The answers, without a final blank image."""
        return self.edits[:-1] if self.outcome == "blank" else self.edits

    @property
    def trips(self) -> tuple[tuple[PlayedEdit, ...], ...]:
        """The complete trips as (forward, ..., backward), without a blank image."""
        edits = self.answers
        ends = [place for place, edit in enumerate(edits, start=1) if edit.direction == BACKWARD]
        return tuple(edits[begin:end] for begin, end in zip([0, *ends], ends, strict=False))

    @property
    def open_steps(self) -> tuple[PlayedEdit, ...]:
        """The edits of the incomplete trip at the end."""
        complete = sum(edit.direction == BACKWARD for edit in self.edits)
        return tuple(edit for edit in self.edits if edit.number > complete)


def chain_slug(case: str, repeat: int) -> str:
    """Return the slug of a chain: its case, and the number of a second or later repeat."""
    return f"{case}--{repeat + 1}" if repeat else case


_CHAIN = TypeAdapter(PlayedChain)


class RunFile(BaseModel):
    """The content of RUN/run.json: the editor, the suite, and how it is played."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[3] = Field(description="The version of the run's files.")
    editor: str = Field(description="A registered editor, or module:Class of another editor.")
    options: dict[str, Any] = Field(description="The editor's options, without keys.")
    secret: str = Field(description="Determines seeds, order and audits.")
    begun: str
    ended: str | None = None
    name: str | None = None
    slug: str | None = None
    stop_after: int = Field(
        default=0,
        description="A chain stops this many trips after its result is known; 0: never early.",
    )
    arm: Arm = Field(default=DEFAULT, description="Settings that differ from the suite's.")
    provenance: dict[str, Any] = Field(description="Versions, and the settings of the editor.")
    suite: dict[str, Any] = Field(description="The complete suite file.")

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(exclude_defaults=True)


class Call(Record):
    """A line of RUN/calls.jsonl: one call to the editor, successful or not."""

    at: str
    chain: str
    number: int
    direction: str = Field(
        pattern="^(forward|backward|audit|[0-9]{1,2}-[A-Za-z])$",
        description='"forward" and "backward": first and last step of a trip; "2-B": another step.',
    )
    attempt: int
    seconds: Number
    ended: str = Field(description='"answer", "refused", or the kind of error.')
    cost: Annotated[Number, Field(ge=0)] | None
    message: str = Field(default="", description="The error message.")

    @property
    def line(self) -> str:
        return self.model_dump_json(exclude_defaults=True) + "\n"


class RunFolderError(UserFacingError):
    """A run folder that cannot be used."""


class RunFolder:
    """A run on disk. Threads may write to different chains at once."""

    def __init__(self, path: Path, header: RunFile, suite: Suite) -> None:
        self.path, self.header, self.suite = path, header, suite
        self.arm = header.arm
        self._writing = threading.Lock()
        self._prepared: dict[str, EncodedImage] = {}
        self.chains = self._read_chains()

    @classmethod
    def planned(
        cls,
        path: Path,
        suite: Suite,
        *,
        editor: str,
        options: Mapping[str, Any],
        secret: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return an empty run without writing it; `settings` are fields of RunFile."""
        header = RunFile(
            format=FORMAT,
            editor=editor,
            options=dict(options),
            secret=secret or new_secret(),
            begun=datetime.now(UTC).isoformat(timespec="seconds"),
            provenance={},
            suite=suite.to_dict(),
            **settings,
        )
        return cls(path, header, suite)

    @classmethod
    def create(cls, path: Path, suite: Suite, **settings: Any) -> Self:
        """Create an empty run; takes the arguments of `planned`.

        Raises RunFolderError if the folder contains other files.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunFolderError(f"{path} already exists and is not a run; choose another --out")
        folder = cls.planned(path, suite, **settings)
        folder.save()
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the run in a folder. Raises RunFolderError naming the problem."""
        file = path / "run.json"
        if not path.is_dir():
            raise RunFolderError(f"there is no folder {path}")
        if not file.is_file():
            raise RunFolderError(
                f"{path} is not a run folder: it has no run.json (`convergebench run` creates one)"
            )
        data = _read_json(file)
        if data.get("format") != FORMAT:
            raise RunFolderError(f"{file} does not have format {FORMAT}")
        try:
            header = RunFile.model_validate(data)
            return cls(path, header, Suite.from_dict(header.suite))
        except ValidationError as error:
            raise RunFolderError(f"{file}: {first_error(error)}") from None
        except SuiteError as error:
            raise RunFolderError(f"{file}: {error}") from error

    @property
    def name(self) -> str:
        """The display name: the run's model, else its editor."""
        return self.header.name or self.header.editor

    @property
    def secret(self) -> str:
        return self.header.secret

    @property
    def complete(self) -> bool:
        """Return True if every chain has ended."""
        return all(chain.outcome for chain in self.chains.values())

    @property
    def edits_done(self) -> int:
        """The number of edits by the model, without degradations, which we compute."""
        return sum(self._model_edits(chain) for chain in self.chains.values())

    def _model_edits(self, chain: PlayedChain) -> int:
        is_restoration = bool(self.suite.pair_by_slug[chain.pair].degradation)
        return sum(not (is_restoration and edit.direction == FORWARD) for edit in chain.edits)

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Lock the folder against other processes; write run.json at the end."""
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunFolderError(f"another process is playing the run in {self.path}") from None
            # Another process may have played before this one got the lock.
            self.chains = self._read_chains()
            try:
                yield
            finally:
                self.save()

    def save(self) -> None:
        """Write run.json."""
        write_json(self.path / "run.json", self.header.to_dict())

    def write_json(self, name: str, data: Mapping[str, Any]) -> None:
        """Write a JSON file into the run folder."""
        write_json(self.path / name, data)

    # Images.

    def source(self, chain: PlayedChain) -> EncodedImage:
        """Return the chain's source image, checked against the suite."""
        slug = chain.image
        with self._writing:
            if slug not in self._prepared:
                described = self.suite.image_by_slug[slug]
                self._prepared[slug] = self._saved_source(
                    slug, described
                ) or EncodedImage.from_image(sources.load_prepared(described, self.suite.size))
            return self._prepared[slug]

    def _saved_source(self, slug: str, described: SuiteImage) -> EncodedImage | None:
        """Return the source image as saved in a chain's folder, or None.

        Scoring then does not need the packages that contain the images.
        """
        for chain in self.chains.values():
            file = self._folder(chain) / SOURCE
            if chain.image == slug and file.is_file():
                image = _decoded(file, _read_bytes(file))
                if sources.pixel_sha256(image.decoded) == described.sha256:
                    return image
        return None

    def read(self, chain: PlayedChain, edit: PlayedEdit | PlayedAudit) -> EncodedImage:
        """Read an answer and check its hash."""
        return _decoded(self._folder(chain) / edit.file, self.read_bytes(chain, edit))

    def edits_left(self, chain: PlayedChain) -> int:
        """Return the number of the chain's remaining edits."""
        return self.pair(chain).edits(self.suite.trips) - self._model_edits(chain)

    def read_bytes(self, chain: PlayedChain, edit: PlayedEdit | PlayedAudit) -> bytes:
        """Read an answer's bytes and check their hash, without decoding them."""
        file = self._folder(chain) / edit.file
        data = _read_bytes(file)
        if hashlib.sha256(data).hexdigest() != edit.sha256:
            raise RunFolderError(f"{file} was changed: its SHA-256 differs from chain.json")
        return data

    def read_sent(self, chain: PlayedChain, audit: PlayedAudit) -> EncodedImage:
        """Return the image that an audit sent."""
        file = self._folder(chain) / audit.sent
        return _decoded(file, _read_bytes(file))

    def pair(self, chain: PlayedChain) -> EditPair:
        """Return the chain's edit pair in the wording of the run's arm."""
        return self.arm.reworded(self.suite.pair_by_slug[chain.pair])

    def plan(self, chain: PlayedChain) -> Plan:
        """Return the plan of the chain's steps."""
        seeds = chain_seeds(self.secret, chain.case, chain.repeat, self.arm.seeds)
        annotations = self.suite.image_by_slug[chain.image].annotations
        return Plan(self.pair(chain), self.suite.trips, seeds, self.arm, annotations)

    def position(self, chain: PlayedChain) -> Position:
        """Return the position from which the chain continues."""
        open_steps = chain.open_steps
        begun = len(chain.edits) - len(open_steps)
        start = self.read(chain, chain.edits[begun - 1]) if begun else self.source(chain)
        trip = chain.edits[begun - 1].number + 1 if begun else 1
        *earlier, image = start, *(self.read(chain, edit) for edit in open_steps)
        return Position(image, trip, tuple(earlier), self._history(chain))

    def _history(self, chain: PlayedChain) -> tuple[Turn, ...]:
        """Return the earlier turns if the run's chains are conversations."""
        plan = self.plan(chain)
        if not plan.is_conversation:
            return ()
        answers = (self.read(chain, edit) for edit in chain.edits)
        return history(plan, self.source(chain), answers)

    # Playing.

    def begin(self, chain: PlayedChain) -> None:
        """Save the source image in the chain's folder."""
        file = self._folder(chain) / SOURCE
        if not file.is_file():
            _write(file, self.source(chain).png())

    def add(self, slug: str, answered: AnsweredStep) -> PlayedChain:
        """Save an answer: first its image, then the chain.json that names it."""
        chain, step, answer = self.chains[slug], answered.step, answered.answer
        image = answer.image
        file = answer_name(step.trip, step.name, image.mime)
        _write(self._folder(chain) / file, image.data)
        played = PlayedEdit(
            step.trip,
            step.name,
            file,
            image.sha256,
            image.mime,
            image.width,
            image.height,
            step.seed,
            round(answer.seconds, 3),
            answer.cost,
            dict(answer.notes),
        )
        return self._put(chain, edits=(*chain.edits, played))

    def add_audit(
        self,
        slug: str,
        audit: Audit,
        request: Touch | Cold,
        seed: int,
        result: Answer | Refused | EditorError,
    ) -> PlayedChain:
        """Save an audit: the image sent, and the result."""
        chain = self.chains[slug]
        sent = f"A{audit.number}_sent.png"
        _write(self._folder(chain) / sent, request.sent.data)
        played = PlayedAudit(audit.number, audit.kind, request.words, seed, sent, "answered")
        if isinstance(result, Answer):
            image = result.image
            file = f"A{audit.number}_answer.{EXTENSIONS[image.mime]}"
            _write(self._folder(chain) / file, image.data)
            played = replace(
                played,
                file=file,
                sha256=image.sha256,
                seconds=round(result.seconds, 3),
                cost=result.cost,
            )
        else:
            played = replace(played, outcome="refused" if isinstance(result, Refused) else "failed")
        return self._put(chain, audits=(*chain.audits, played))

    def end(self, slug: str, outcome: str, reason: str = "") -> PlayedChain:
        return self._put(self.chains[slug], outcome=outcome, reason=reason)

    def log_call(self, slug: str, position: tuple[int, str], attempt: Attempt) -> None:
        """Append a call to calls.jsonl, successful or not."""
        result = attempt.result
        call = Call(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            chain=slug,
            number=position[0],
            direction=position[1],
            attempt=attempt.number,
            seconds=round(attempt.seconds, 3),
            ended=type(result).__name__.lower(),
            cost=attempt.cost,
            message=storable(str(result))[:500] if isinstance(result, Exception) else "",
        )
        with self._writing, (self.path / "calls.jsonl").open("a", encoding="utf-8") as file:
            file.write(call.line)

    def calls(self) -> list[Call]:
        """Return every call so far, in order, successful or not."""
        file = self.path / "calls.jsonl"
        calls = []
        for line in file.read_bytes().splitlines() if file.is_file() else ():
            with suppress(ValueError):  # a crash may have truncated the last line
                calls.append(Call.model_validate(parse_strictly(line.decode())))
        return calls

    def _put(self, chain: PlayedChain, **changes: Any) -> PlayedChain:
        changed = PlayedChain(**{**chain.__dict__, **changes})
        write_json(self._folder(chain) / "chain.json", asdict(changed))
        self.chains[chain.slug] = changed
        return changed

    def _read_chains(self) -> dict[str, PlayedChain]:
        """Read every chain of the run; a chain without a file is not played yet."""
        empty = _unplayed(self.suite, self.arm)
        return {chain.slug: self._read_chain(chain) for chain in empty}

    def _read_chain(self, unplayed: PlayedChain) -> PlayedChain:
        file = self._folder(unplayed) / "chain.json"
        if not file.is_file():
            return unplayed
        data = _read_json(file)
        try:
            chain = _CHAIN.validate_python(data)
        except ValidationError as error:
            raise RunFolderError(f"{file}, {first_error(error)}") from None
        if chain.slug != unplayed.slug:
            raise RunFolderError(f"{file} belongs to another chain: {chain.slug[:80]!r}")
        for name in (*(h.file for h in chain.edits), *(n for a in chain.audits for n in a.files)):
            if not FILE.fullmatch(name):
                raise RunFolderError(f"{file}: {name[:80]!r} is not the name of an image file")
        return chain

    def _folder(self, chain: PlayedChain) -> Path:
        return self.path / "chains" / chain.slug


def _unplayed(suite: Suite, arm: Arm) -> Iterator[PlayedChain]:
    """Yield every chain of the suite, with nothing played yet."""
    for case in suite.cases:
        for repeat in range(arm.repeats_of(suite.repeats_of(case))):
            yield PlayedChain(case.image, case.pair, repeat)


def _read_bytes(file: Path) -> bytes:
    """Read a regular file. Raises RunFolderError for links and files over the limit."""
    try:
        if file.is_symlink() or not file.is_file():
            raise RunFolderError(f"{file} is missing or not a regular file")
        if (size := file.stat().st_size) > MAX_BYTES:
            raise RunFolderError(f"{file} has {size:,} bytes; the limit is {MAX_BYTES:,}")
        return file.read_bytes()
    except OSError as error:
        raise RunFolderError(f"{file}: {error}") from error


def _decoded(file: Path, data: bytes) -> EncodedImage:
    try:
        return EncodedImage.from_bytes(data)
    except ImageError as error:
        raise RunFolderError(f"{file}: {error}") from error


def _read_json(file: Path) -> dict[str, Any]:
    try:
        data = read_json_file(file)
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file}: {error}") from error
    if not isinstance(data, dict):
        raise RunFolderError(f"{file}: expected an object")
    return data


def write_json(file: Path, data: Mapping[str, Any]) -> None:
    """Write the data as a JSON file, atomically."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    _write(file, (text + "\n").encode())


def _write(file: Path, data: bytes) -> None:
    """Write a file atomically, so that no reader sees an incomplete one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
