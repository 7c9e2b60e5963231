"""A vision-language model that is asked about trips, with forced answers (method §4).

It is asked within its budget, and its answers are kept and checked. It is an option of the shell
and of a worker, and never needed: one that is down, slow, unreadable or caught lying leaves its
evidence out and costs no run.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import tenacity
from PIL import Image

from evaluation.content.suites import EditPair, ticks
from evaluation.editors.failures import shorten
from evaluation.errors import EditorError
from evaluation.images import Picture, encode_png
from evaluation.untrusted_json import parse_strictly, storable
from evaluation.witnesses.base import Evidence, TripToJudge, Witness, WitnessError
from evaluation.witnesses.judge import questions
from evaluation.witnesses.judge.clients import CLIENTS, Client
from evaluation.witnesses.judge.questions import Answer, Question, Unreadable

ANSWERED, REFUSED, UNREADABLE = "answered", "refused", "unreadable"


@dataclass(frozen=True)
class Kept:
    """One answer as it came, and what it was an answer to."""

    question: str
    version: str
    outcome: str  # answered, refused, unreadable
    text: str
    cost: float | None
    seconds: float
    #: What it is about, for people: a case and a trip.
    about: str = ""


class Answers(ABC):
    """Where answers are kept, by the hash of all that they depend on."""

    @abstractmethod
    def get(self, key: str) -> Kept | None: ...

    @abstractmethod
    def keep(self, key: str, kept: Kept) -> None: ...

    @abstractmethod
    def all(self) -> Mapping[str, Kept]:
        """Those of this run, for sums."""


class InMemory(Answers):
    """For one process."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def get(self, key: str) -> Kept | None:
        return self._kept.get(key)

    def keep(self, key: str, kept: Kept) -> None:
        self._kept[key] = kept

    def all(self) -> Mapping[str, Kept]:
        return self._kept


class AnswerFile(InMemory):
    """A file of one JSON object per line; a line that was cut off is asked again."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        lines = path.read_bytes().splitlines() if path.is_file() else []
        for line in lines:
            try:
                row = dict(parse_strictly(line.decode()))
                key = str(row.pop("key"))
                self._kept[key] = Kept(**row)
            except (ValueError, KeyError, TypeError):
                continue

    def keep(self, key: str, kept: Kept) -> None:
        super().keep(key, kept)
        with self.path.open("a", encoding="utf-8") as file:
            # A line of its own, also after one that was cut off.
            begin = "\n" if file.tell() else ""
            file.write(f"{begin}{json.dumps({'key': key, **asdict(kept)}, ensure_ascii=False)}")


A = TypeVar("A", bound=Answer)
#: Pictures are shown with this side at most.
SHOWN_SIDE = 768
#: After so many failures in a row it is not asked any more.
FAILURES = 3
ATTEMPTS, LONGEST_WAIT = 3, 20.0
TOLD = {"yes": True, "no": False, "unsure": None}


@dataclass(frozen=True)
class JudgeOptions:
    """Which model is asked, where, and how much that may cost for one run."""

    model: str
    kind: str = "chat"  # or gemini
    url: str = ""
    key: str = field(default="", repr=False)
    timeout: float = 60.0
    price_in: float = 0.0  # USD per million tokens
    price_out: float = 0.0
    budget_usd: float | None = None
    budget_calls: int | None = None
    #: A slow judge holds a run up for so long at most.
    budget_seconds: float = 3600.0

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> JudgeOptions | None:
        """By the names of the settings, JUDGE_MODEL and so on; None where no model is named."""
        if not values.get("JUDGE_MODEL"):
            return None
        kind = values.get("JUDGE_KIND") or cls.kind
        if kind not in CLIENTS:
            raise WitnessError(f"JUDGE_KIND is {kind!r}; known are {', '.join(CLIENTS)}")

        def number(name: str) -> float | None:
            value = values.get(name)
            if value in (None, ""):
                return None
            try:
                found = float(value)
            except (TypeError, ValueError):
                raise WitnessError(f"{name} is {value!r}: it should be a number") from None
            if not 0 <= found < math.inf:
                raise WitnessError(f"{name} is {value!r}: it should be a number from 0 on")
            return found

        calls, usd = number("JUDGE_CALLS"), number("JUDGE_USD")
        if usd is not None and not (number("JUDGE_PRICE_IN") or number("JUDGE_PRICE_OUT")):
            raise WitnessError(
                "JUDGE_USD holds only where prices are known: set JUDGE_PRICE_IN and "
                "JUDGE_PRICE_OUT (USD per million tokens), or JUDGE_CALLS"
            )
        seconds = number("JUDGE_SECONDS")
        return cls(
            model=values["JUDGE_MODEL"],
            kind=kind,
            url=values.get("JUDGE_URL") or "",
            key=values.get("JUDGE_KEY") or "",
            timeout=number("JUDGE_TIMEOUT") or cls.timeout,
            price_in=number("JUDGE_PRICE_IN") or 0.0,
            price_out=number("JUDGE_PRICE_OUT") or 0.0,
            budget_usd=usd,
            budget_calls=None if calls is None else int(calls),
            budget_seconds=cls.budget_seconds if seconds is None else seconds,
        )

    def client(self) -> Client:
        return CLIENTS[self.kind](
            model=self.model,
            url=self.url,
            key=self.key,
            timeout=self.timeout,
            prices=(self.price_in, self.price_out),
        )


class Silent(Exception):
    """The judge is not asked any more; the text says why."""


class Judge(Witness):
    """Asks a vision-language model; heard, never a gate.

    `silent` says why it is not asked any more: its budget is used up, it failed too often.
    """

    name: ClassVar[str] = "judge"
    label: ClassVar[str] = "the judge"
    licence: ClassVar[str] = "of the model that is asked"
    can: ClassVar[str] = "whatever can be said in words, where somebody set up a judge"
    cannot: ClassVar[str] = (
        "repeat its answers surely, or prove them; it may prefer the first picture, and read "
        "what is written in one: both are measured beside its answers"
    )

    def __init__(
        self,
        client: Client | None = None,
        answers: Answers | None = None,
        *,
        budget_usd: float | None = None,
        budget_calls: int | None = None,
        budget_seconds: float = JudgeOptions.budget_seconds,
    ) -> None:
        self.client, self.answers = client, answers or InMemory()
        self.budget_usd, self.budget_calls = budget_usd, budget_calls
        self.budget_seconds = budget_seconds
        self.silent = ""
        self._failures = 0
        #: What was waited for without an answer.
        self._lost_seconds = 0.0

    @classmethod
    def of(cls, options: JudgeOptions, answers: Answers | None = None) -> Judge:
        return cls(
            options.client(),
            answers,
            budget_usd=options.budget_usd,
            budget_calls=options.budget_calls,
            budget_seconds=options.budget_seconds,
        )

    @property
    def version(self) -> str:  # type: ignore[override]
        """The model and the hash of all that it is asked."""
        model = self.client.model if self.client else ""
        return f"{model}-{questions.prompts_hash()[:12]}"

    def missing(self) -> list[str]:
        return self.client.missing() if self.client else ["no judge is set up (JUDGE_MODEL)"]

    # What it is asked.

    def look(self, trip: TripToJudge, about: str = "") -> Evidence | None:
        """Was the edit made, undone, and did anything else change; None where it does not tell."""
        if trip.returned is None or trip.pair.change == "none":
            return None
        if not self.is_honest(trip, about):
            return None
        shown = (trip.before, trip.edited, trip.returned)
        told = self.ask(questions.TRIP, shown, trip.pair, about)
        if told is None:
            return None
        made, undone = TOLD[told.made], TOLD[told.undone]
        changed = TOLD[told.else_changed]
        return Evidence(
            self.name,
            self.version,
            trip.pair.object or shorten(trip.pair.forward)[:80],
            made,
            undone if made else None,
            gates=False,
            kept=None if changed is None else not changed,
            said=shorten(told.what_else)[:200] if changed else "",
        )

    def is_honest(self, trip: TripToJudge, about: str = "") -> bool:
        """Whether it sees no edit in the edited picture beside itself.

        One that does answers by what is written in the picture, or always yes.
        """
        told = self.ask(questions.CONTROL, (trip.edited, trip.edited), trip.pair, about)
        return told is not None and told.made != "yes"

    def rubric(self, trip: TripToJudge, about: str = "") -> Evidence | None:
        """The forward edit by Pico-Banana's rubric."""
        told = self.ask(questions.RUBRIC, (trip.before, trip.edited), trip.pair, about)
        if told is None:
            return None
        parts = [getattr(told, name) / 10 for name in questions.WEIGHTS]
        verdict = "accepted" if told.accepted else "not accepted"
        return Evidence(
            self.name,
            self.version,
            "rubric",
            made=None,
            undone=None,
            gates=False,
            amounts=(*parts, told.score),
            said=f"{told.score:.2f} of 1 by the rubric: {verdict}",
        )

    def closer(
        self, source: Picture, one: Picture, other: Picture, about: str = ""
    ) -> Preference | None:
        """Which of two returns is closer to the source, asked in both orders."""
        found = []
        for shown in ((source, one, other), (source, other, one)):
            told = self.ask(questions.CLOSER, shown, None, about)
            if told is None:
                return None
            found.append(told.closer)
        return Preference(*found)

    def worn(self, picture: Picture, about: str = "") -> float | None:
        """Whether a picture looks worn to it, 1 or 0; None where it does not tell."""
        told = self.ask(questions.WORN, (picture,), None, about)
        return None if told is None else float(told.worn == "yes")

    def ask(
        self,
        question: Question[A],
        shown: Sequence[Picture],
        pair: EditPair | None,
        about: str = "",
    ) -> A | None:
        """The answer, new or kept; None where there is none to be had."""
        text = question.asked(**(questions.words(pair) if pair else {}))
        key = self._key(question.name, text, shown)
        kept = self.answers.get(key)
        if kept is None:
            try:
                kept = self._asked(question, text, shown, about)
            except Silent:
                return None
            self.answers.keep(key, kept)
        if kept.outcome != ANSWERED:
            return None
        try:
            return question.read(kept.text)
        except Unreadable:
            return None

    def _key(self, name: str, text: str, shown: Sequence[Picture]) -> str:
        told = [self.version, name, text, [picture.sha256 for picture in shown]]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def _asked(
        self, question: Question[Any], text: str, shown: Sequence[Picture], about: str
    ) -> Kept:
        self._check_budget()
        client = self.client
        if client is None or self.missing():
            raise self._silenced("; ".join(self.missing()))
        pictures = [_png(picture) for picture in shown]
        began = time.monotonic()
        try:
            said = _patiently(lambda: client.ask(text, pictures, question.schema))
        except EditorError as error:
            self._failures += 1
            self._lost_seconds += time.monotonic() - began
            if error.permanent or self._failures >= FAILURES:
                raise self._silenced(str(error)) from error
            raise Silent(str(error)) from error
        self._failures = 0
        outcome = REFUSED if said.refused else ANSWERED
        text = storable(said.text)[: questions.MOST_LETTERS]
        if outcome == ANSWERED:
            try:
                question.read(text)
            except Unreadable:
                outcome = UNREADABLE
        return Kept(question.name, self.version, outcome, text, said.cost, said.seconds, about)

    def _check_budget(self) -> None:
        if self.silent:
            raise Silent(self.silent)
        kept = self._own_answers()
        if self.budget_calls is not None and len(kept) >= self.budget_calls:
            raise self._silenced(f"all {self.budget_calls:,} calls of its budget are used")
        if self.budget_usd is not None and _usd(kept) >= self.budget_usd:
            raise self._silenced(f"its budget of USD {self.budget_usd:g} is used up")
        if self._lost_seconds + sum(one.seconds for one in kept) >= self.budget_seconds:
            raise self._silenced(f"its time of {self.budget_seconds:g} seconds is used up")

    def _own_answers(self) -> list[Kept]:
        return [one for one in self.answers.all().values() if one.version == self.version]

    def _silenced(self, why: str) -> Silent:
        self.silent = why
        return Silent(why)

    # What is said of it.

    def summary(self) -> dict[str, Any]:
        """Calls, cost, how its answers came out, and how it prefers the first picture."""
        kept = self._own_answers()
        outcomes = Counter(one.outcome for one in kept)
        control = [_read(questions.CONTROL, one) for one in kept]
        checked = [told.made for told in control if told]
        order = [told.closer for told in (_read(questions.CLOSER, one) for one in kept) if told]
        decided = [closer for closer in order if closer != "same"]
        return {
            "version": self.version,
            "calls": len(kept),
            "usd": _usd(kept),
            "outcomes": dict(outcomes),
            "controls": len(checked),
            "controls_failed": checked.count("yes"),
            "compared": len(order),
            # Both orders are asked: half is what one has who looks at the pictures alone.
            "first_preferred": decided.count("first") / len(decided) if decided else None,
            "silent": self.silent,
        }


@dataclass(frozen=True)
class Preference:
    """The answers to one comparison: with `one` shown first, and with `other` shown first."""

    forwards: str
    backwards: str

    @property
    def closer(self) -> str:
        """ "one", "other", or "same" where the two orders contradict each other."""
        if (self.forwards, self.backwards) == ("first", "second"):
            return "one"
        if (self.forwards, self.backwards) == ("second", "first"):
            return "other"
        return "same"


def _usd(kept: Sequence[Kept]) -> float:
    return sum(one.cost or 0.0 for one in kept)


def _read(question: Question[A], kept: Kept) -> A | None:
    if kept.question != question.name or kept.outcome != ANSWERED:
        return None
    try:
        return question.read(kept.text)
    except Unreadable:
        return None


def _png(picture: Picture) -> bytes:
    """The pixels and nothing else, at the size at which they are shown."""
    image = picture.image
    if max(image.size) > SHOWN_SIDE:
        image = image.copy()
        image.thumbnail((SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.LANCZOS)
    return encode_png(image)


def _patiently(ask: Any) -> Any:
    """Ask again what may be answered the next time: too many calls, a server that stumbled."""

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, EditorError) else None
        return min(LONGEST_WAIT, 1.0 if asked is None else asked)

    def passes(error: BaseException) -> bool:
        slow = isinstance(error, EditorError) and error.fault == "timeout"
        return isinstance(error, EditorError) and not error.permanent and not slow

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(passes),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=pause,
        reraise=True,
    )(ask)


#: The pictures of one trip: before, edited, returned; None where one of them is not kept.
ReadTrip = Callable[[int], tuple[Picture, Picture, Picture] | None]


def hear_chain(
    judge: Judge, source: Picture, trips: int, read: ReadTrip, pair: EditPair, about: str
) -> dict[int, list[dict[str, Any]]]:
    """By trip, the judge's evidence: of the trips that people read; the rubric of the first.

    Its first and its last return are laid beside each other in both orders, which tells
    whether the judge prefers what it is shown first.
    """
    found: dict[int, list[dict[str, Any]]] = {}
    returned: list[Picture] = []
    for number in ticks(trips) if trips else ():
        if judge.silent:
            break
        pictures = read(number)
        if pictures is None:
            continue
        # Of a trip of many steps the first edit is asked about, and whether all is back.
        moves = pair.trip(number).moves
        own = pair.of_move(number, moves[0]) if moves else pair
        trip = TripToJudge(source, *pictures, own)
        name = f"{about}, trip {number}"
        said = [judge.look(trip, name)]
        if number == 1 and own.change != "none":
            said.append(judge.rubric(trip, name))
        found[number] = [one.to_dict() for one in said if one]
        returned.append(pictures[2])
    if len(returned) > 1 and not judge.silent:
        judge.closer(source, returned[0], returned[-1], about)
    return found


#: The trips after which a picture is asked about outright, and the last.
WORN_AT = (1, 2, 3, 5, 10, 20)


def ask_worn(
    judge: Judge,
    source: Picture,
    trips: int,
    read: Callable[[int], Picture | None],
    about: str,
) -> list[float | None]:
    """Whether the source and each of these returns looks worn to the judge, shown alone.

    1 is yes; None where it was not asked, or did not tell. What it says of sources, which nobody
    edited, is its rate of false alarms; a source is paid for once, however many chains it has.
    """
    found: list[float | None] = [None] * (trips + 1)
    for number in (0, *(n for n in range(1, trips + 1) if n in WORN_AT or n == trips)):
        if judge.silent:
            break
        picture = read(number) if number else source
        if picture is not None:
            found[number] = judge.worn(picture, f"{about}, trip {number}")
    return found


def with_judge(evidence: Sequence[Any], heard: Sequence[dict[str, Any]]) -> list[Any]:
    """The evidence of a trip with the judge's, which replaces what it said before."""
    return [*(one for one in evidence if one["witness"] != Judge.name), *heard]
