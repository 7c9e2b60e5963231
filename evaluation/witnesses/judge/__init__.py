"""The judge: a vision-language model that answers fixed questions on trips (docs/method.md).

The judge is optional. A budget limits its calls, and its answers are stored. If the judge is down,
slow, unreadable or dishonest, it gives no evidence; the run goes on.
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
from evaluation.images import EncodedImage, encode_png
from evaluation.untrusted_json import parse_strictly, storable
from evaluation.witnesses.base import Evidence, TripToJudge, Witness, WitnessError
from evaluation.witnesses.judge import questions
from evaluation.witnesses.judge.clients import CLIENTS, Client
from evaluation.witnesses.judge.questions import Answer, Question, Unreadable

ANSWERED, REFUSED, UNREADABLE = "answered", "refused", "unreadable"


@dataclass(frozen=True)
class StoredAnswer:
    """A stored answer with its question, outcome and cost."""

    question: str
    version: str
    outcome: str  # answered, refused, unreadable
    text: str
    cost: float | None
    seconds: float
    #: The case and the trip that the question is about, for people to read.
    about: str = ""


class Answers(ABC):
    """A store of answers by key, the hash of all inputs of a question."""

    @abstractmethod
    def get(self, key: str) -> StoredAnswer | None: ...

    @abstractmethod
    def save(self, key: str, answer: StoredAnswer) -> None: ...

    @abstractmethod
    def all(self) -> Mapping[str, StoredAnswer]:
        """Return all answers about this run, for totals."""


class InMemory(Answers):
    def __init__(self) -> None:
        self._answers: dict[str, StoredAnswer] = {}

    def get(self, key: str) -> StoredAnswer | None:
        return self._answers.get(key)

    def save(self, key: str, answer: StoredAnswer) -> None:
        self._answers[key] = answer

    def all(self) -> Mapping[str, StoredAnswer]:
        return self._answers


class AnswerFile(InMemory):
    """Answers in a file with one JSON object per line; invalid lines are ignored."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        lines = path.read_bytes().splitlines() if path.is_file() else []
        for line in lines:
            try:
                row = dict(parse_strictly(line.decode()))
                key = str(row.pop("key"))
                self._answers[key] = StoredAnswer(**row)
            except (ValueError, KeyError, TypeError):
                continue

    def save(self, key: str, answer: StoredAnswer) -> None:
        super().save(key, answer)
        with self.path.open("a", encoding="utf-8") as file:
            # A crash may have cut the last line short, so the new answer begins a new line.
            newline = "\n" if file.tell() else ""
            file.write(f"{newline}{json.dumps({'key': key, **asdict(answer)}, ensure_ascii=False)}")


A = TypeVar("A", bound=Answer)
#: The longest side of the images sent to the judge.
SHOWN_SIDE = 768
#: The judge stops after so many consecutive failures.
MAX_FAILURES = 3
ATTEMPTS, LONGEST_WAIT = 3, 20.0
VERDICTS = {"yes": True, "no": False, "unsure": None}


@dataclass(frozen=True)
class JudgeOptions:
    """The judge's model, its address, and its budget for one run."""

    model: str
    kind: str = "chat"  # or gemini
    url: str = ""
    key: str = field(default="", repr=False)
    timeout: float = 60.0
    price_in: float = 0.0  # USD per million tokens
    price_out: float = 0.0
    budget_usd: float | None = None
    budget_calls: int | None = None
    #: The maximum total time of all calls for one run.
    budget_seconds: float = 3600.0

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> JudgeOptions | None:
        """Read the options from the JUDGE_* settings; None if JUDGE_MODEL is empty.

        Raises WitnessError if a setting is invalid.
        """
        if not values.get("JUDGE_MODEL"):
            return None
        kind = values.get("JUDGE_KIND") or cls.kind
        if kind not in CLIENTS:
            raise WitnessError(f"JUDGE_KIND is {kind!r}; it must be one of {', '.join(CLIENTS)}")

        def number(name: str) -> float | None:
            value = values.get(name)
            if value in (None, ""):
                return None
            try:
                parsed = float(value)
            except (TypeError, ValueError):
                raise WitnessError(f"{name} is {value!r}; it must be a number") from None
            if not 0 <= parsed < math.inf:
                raise WitnessError(f"{name} is {value!r}; it must be a number, 0 or more")
            return parsed

        calls, usd = number("JUDGE_CALLS"), number("JUDGE_USD")
        if usd is not None and not (number("JUDGE_PRICE_IN") or number("JUDGE_PRICE_OUT")):
            raise WitnessError(
                "JUDGE_USD needs prices: set JUDGE_PRICE_IN and JUDGE_PRICE_OUT (USD per million "
                "tokens), or use JUDGE_CALLS"
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


class NoAnswer(Exception):
    """Raised if the judge gives no answer; the message is the reason."""


class Judge(Witness):
    """Evidence from a vision-language model, which never ends a chain.

    `stopped` is the reason why no more questions are asked, such as a spent budget; "" until then.
    """

    name: ClassVar[str] = "judge"
    label: ClassVar[str] = "the judge"
    licence: ClassVar[str] = "that of the vision-language model used"
    can: ClassVar[str] = "everything that a question can describe, if a judge is set up"
    cannot: ClassVar[str] = (
        "anything with certainty: its answers may vary, prefer the first image, or obey text in an "
        "image (control questions measure the last two faults)"
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
        self.stopped = ""
        self._failures = 0
        self._failed_seconds = 0.0

    @classmethod
    def from_options(cls, options: JudgeOptions, answers: Answers | None = None) -> Judge:
        return cls(
            options.client(),
            answers,
            budget_usd=options.budget_usd,
            budget_calls=options.budget_calls,
            budget_seconds=options.budget_seconds,
        )

    @property
    def version(self) -> str:  # type: ignore[override]
        """The model and the hash of all questions."""
        model = self.client.model if self.client else ""
        return f"{model}-{questions.prompts_hash()[:12]}"

    def missing(self) -> list[str]:
        return self.client.missing() if self.client else ["no judge is set up (JUDGE_MODEL)"]

    # Questions.

    def examine(self, trip: TripToJudge, about: str = "") -> Evidence | None:
        """Ask if the edit was made, was undone, and changed anything else; None: no answer."""
        if trip.restored is None or trip.pair.change == "none":
            return None
        if not self.is_honest(trip, about):
            return None
        shown = (trip.before, trip.edited, trip.restored)
        answer = self.ask(questions.TRIP, shown, trip.pair, about)
        if answer is None:
            return None
        made, undone = VERDICTS[answer.made], VERDICTS[answer.undone]
        changed = VERDICTS[answer.else_changed]
        return Evidence(
            self.name,
            self.version,
            trip.pair.object or shorten(trip.pair.forward)[:80],
            made,
            undone if made else None,
            gates=False,
            kept=None if changed is None else not changed,
            said=shorten(answer.what_else)[:200] if changed else "",
        )

    def is_honest(self, trip: TripToJudge, about: str = "") -> bool:
        """Return True if the judge sees no edit when it is shown the edited image twice.

        A judge that sees an edit obeys text in the image, or always answers yes.
        """
        answer = self.ask(questions.CONTROL, (trip.edited, trip.edited), trip.pair, about)
        return answer is not None and answer.made != "yes"

    def rubric(self, trip: TripToJudge, about: str = "") -> Evidence | None:
        """Return a rating of the forward edit by Pico-Banana's rubric, as evidence."""
        answer = self.ask(questions.RUBRIC, (trip.before, trip.edited), trip.pair, about)
        if answer is None:
            return None
        parts = [getattr(answer, name) / 10 for name in questions.WEIGHTS]
        verdict = "accepted" if answer.accepted else "not accepted"
        return Evidence(
            self.name,
            self.version,
            questions.RUBRIC.name,
            made=None,
            undone=None,
            gates=False,
            amounts=(*parts, answer.score),
            said=f"{answer.score:.2f} of 1 by the rubric: {verdict}",
        )

    def closer(
        self, source: EncodedImage, one: EncodedImage, other: EncodedImage, about: str = ""
    ) -> Preference | None:
        """Ask which restored image is closer to the source, in both orders; None: no answer."""
        answers = []
        for shown in ((source, one, other), (source, other, one)):
            answer = self.ask(questions.CLOSER, shown, None, about)
            if answer is None:
                return None
            answers.append(answer.closer)
        return Preference(*answers)

    def worn(self, image: EncodedImage, about: str = "") -> float | None:
        """Return 1 if the judge finds the image worn by many edits, else 0; None: no answer."""
        answer = self.ask(questions.WORN, (image,), None, about)
        return None if answer is None else float(answer.worn == "yes")

    def ask(
        self,
        question: Question[A],
        shown: Sequence[EncodedImage],
        pair: EditPair | None,
        about: str = "",
    ) -> A | None:
        """Return the stored answer, or ask the question; None without a readable answer."""
        text = question.prompt(**(questions.words(pair) if pair else {}))
        key = self._key(question.name, text, shown)
        stored = self.answers.get(key)
        if stored is None:
            try:
                stored = self._new_answer(question, text, shown, about)
            except NoAnswer:
                return None
            self.answers.save(key, stored)
        if stored.outcome != ANSWERED:
            return None
        try:
            return question.read(stored.text)
        except Unreadable:
            return None

    def _key(self, name: str, text: str, shown: Sequence[EncodedImage]) -> str:
        inputs = [self.version, name, text, [image.sha256 for image in shown]]
        return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()

    def _new_answer(
        self, question: Question[Any], text: str, shown: Sequence[EncodedImage], about: str
    ) -> StoredAnswer:
        self._check_budget()
        client = self.client
        if client is None or self.missing():
            raise self._stop("; ".join(self.missing()))
        images = [_png(image) for image in shown]
        began = time.monotonic()
        try:
            reply = _with_retries(lambda: client.ask(text, images, question.schema))
        except EditorError as error:
            self._failures += 1
            self._failed_seconds += time.monotonic() - began
            if error.permanent or self._failures >= MAX_FAILURES:
                raise self._stop(str(error)) from error
            raise NoAnswer(str(error)) from error
        self._failures = 0
        outcome = REFUSED if reply.refused else ANSWERED
        text = storable(reply.text)[: questions.MAX_CHARACTERS]
        if outcome == ANSWERED:
            try:
                question.read(text)
            except Unreadable:
                outcome = UNREADABLE
        return StoredAnswer(
            question.name, self.version, outcome, text, reply.cost, reply.seconds, about
        )

    def _check_budget(self) -> None:
        if self.stopped:
            raise NoAnswer(self.stopped)
        answers = self._own_answers()
        if self.budget_calls is not None and len(answers) >= self.budget_calls:
            raise self._stop(f"the budget of {self.budget_calls:,} calls is used up")
        if self.budget_usd is not None and _usd(answers) >= self.budget_usd:
            raise self._stop(f"the budget of USD {self.budget_usd:g} is used up")
        if self._failed_seconds + sum(answer.seconds for answer in answers) >= self.budget_seconds:
            raise self._stop(f"the budget of {self.budget_seconds:g} seconds is used up")

    def _own_answers(self) -> list[StoredAnswer]:
        return [answer for answer in self.answers.all().values() if answer.version == self.version]

    def _stop(self, why: str) -> NoAnswer:
        self.stopped = why
        return NoAnswer(why)

    # Totals.

    def summary(self) -> dict[str, Any]:
        """Return calls, cost, outcomes, control questions, and the bias for the first image."""
        stored = self._own_answers()
        outcomes = Counter(item.outcome for item in stored)
        control = [_read(questions.CONTROL, item) for item in stored]
        checked = [reply.made for reply in control if reply]
        order = [
            reply.closer for reply in (_read(questions.CLOSER, item) for item in stored) if reply
        ]
        decided = [closer for closer in order if closer != "same"]
        return {
            "version": self.version,
            "calls": len(stored),
            "usd": _usd(stored),
            "outcomes": dict(outcomes),
            "controls": len(checked),
            "controls_failed": checked.count("yes"),
            "compared": len(order),
            # Both orders are shown, so an unbiased judge prefers the first image in half of them.
            "first_preferred": decided.count("first") / len(decided) if decided else None,
            "silent": self.stopped,
        }


@dataclass(frozen=True)
class Preference:
    """Two answers to a comparison: with `one` shown first, then with `other` shown first."""

    forwards: str
    backwards: str

    @property
    def closer(self) -> str:
        """Return "one" or "other" if both answers agree on that image, else "same"."""
        if (self.forwards, self.backwards) == ("first", "second"):
            return "one"
        if (self.forwards, self.backwards) == ("second", "first"):
            return "other"
        return "same"


def _usd(answers: Sequence[StoredAnswer]) -> float:
    return sum(answer.cost or 0.0 for answer in answers)


def _read(question: Question[A], answer: StoredAnswer) -> A | None:
    if answer.question != question.name or answer.outcome != ANSWERED:
        return None
    try:
        return question.read(answer.text)
    except Unreadable:
        return None


def _png(image: EncodedImage) -> bytes:
    """Encode only the pixels, at the size shown to the judge."""
    decoded = image.decoded
    if max(decoded.size) > SHOWN_SIDE:
        decoded = decoded.copy()
        decoded.thumbnail((SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.LANCZOS)
    return encode_png(decoded)


def _with_retries(ask: Any) -> Any:
    """Make a call; retry it after temporary errors, but not after a timeout."""

    def seconds_to_wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        wait = error.retry_after if isinstance(error, EditorError) else None
        return min(LONGEST_WAIT, 1.0 if wait is None else wait)

    def is_temporary(error: BaseException) -> bool:
        timed_out = isinstance(error, EditorError) and error.fault == "timeout"
        return isinstance(error, EditorError) and not error.permanent and not timed_out

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_temporary),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=seconds_to_wait,
        reraise=True,
    )(ask)


#: Reads three images of a trip: starting, edited, restored; None if one of them is not stored.
ReadTrip = Callable[[int], tuple[EncodedImage, EncodedImage, EncodedImage] | None]


def judge_chain(
    judge: Judge, source: EncodedImage, trips: int, read: ReadTrip, pair: EditPair, about: str
) -> dict[int, list[dict[str, Any]]]:
    """Return the judge's evidence on the trips that pages show (`ticks`), by trip number.

    The first trip is also rated by the rubric. To measure the judge's bias for the image shown
    first, the first and the last restored image are compared in both orders.
    """
    by_trip: dict[int, list[dict[str, Any]]] = {}
    restored: list[EncodedImage] = []
    for number in ticks(trips) if trips else ():
        if judge.stopped:
            break
        images = read(number)
        if images is None:
            continue
        # A trip of several edits is judged by its first edit and its restored image.
        moves = pair.trip(number).moves
        first_pair = pair.move_as_pair(number, moves[0]) if moves else pair
        trip = TripToJudge(source, *images, first_pair)
        name = f"{about}, trip {number}"
        evidence = [judge.examine(trip, name)]
        if number == 1 and first_pair.change != "none" and judge.is_honest(trip, name):
            evidence.append(judge.rubric(trip, name))
        by_trip[number] = [item.to_dict() for item in evidence if item]
        restored.append(images[2])
    if len(restored) > 1 and not judge.stopped:
        judge.closer(source, restored[0], restored[-1], about)
    return by_trip


def max_calls(chains: int, trips: int) -> int:
    """Return the maximum number of calls for this many chains."""
    controls_and_trips, rubric, both_orders = 2 * len(ticks(trips)), 1, 2
    worn = len({0, trips, *(n for n in WORN_AT if n < trips)})
    return chains * (controls_and_trips + rubric + both_orders + worn)


#: The judge is asked about wear after these trips and after the last trip.
WORN_AT = (1, 2, 3, 5, 10, 20)


def ask_worn(
    judge: Judge,
    source: EncodedImage,
    trips: int,
    read: Callable[[int], EncodedImage | None],
    about: str,
) -> list[float | None]:
    """Ask whether the source and some restored images look worn; return the judge's verdicts.

    Each image is shown alone. The first value is the source's, then one follows per trip: 1 is
    worn, 0 is not worn, None is unknown. The verdicts on sources give the rate of false alarms.
    The judge is asked about each source only once, because the answer is stored.
    """
    answers: list[float | None] = [None] * (trips + 1)
    for number in (0, *(n for n in range(1, trips + 1) if n in WORN_AT or n == trips)):
        if judge.stopped:
            break
        image = read(number) if number else source
        if image is not None:
            answers[number] = judge.worn(image, f"{about}, trip {number}")
    return answers


def replace_judge_evidence(evidence: Sequence[Any], judged: Sequence[dict[str, Any]]) -> list[Any]:
    """Return a trip's evidence with the judge's part replaced by `judged`."""
    return [*(item for item in evidence if item["witness"] != Judge.name), *judged]
