"""What the reference editors understand of a prompt, by rule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from evaluation.content import catalog
from evaluation.content.operators import INVERSES
from evaluation.content.rules import Rule
from evaluation.editors.drawings import DRAWINGS
from evaluation.errors import EditorError, Fault


class Action(StrEnum):
    KEEP = "keep"
    TURN = "turn"
    DRAW = "draw"
    ERASE = "erase"
    TINT = "tint"
    UNTINT = "untint"
    SWAP = "swap"
    UNSWAP = "unswap"
    WRITE = "write"
    UNWRITE = "unwrite"
    REWRITE = "rewrite"
    UNREWRITE = "unrewrite"
    SHRINK = "shrink"
    ENLARGE = "enlarge"


_BACK = {
    Action.DRAW: Action.ERASE,
    Action.TINT: Action.UNTINT,
    Action.SWAP: Action.UNSWAP,
    Action.WRITE: Action.UNWRITE,
    Action.REWRITE: Action.UNREWRITE,
    Action.SHRINK: Action.ENLARGE,
}
_OPPOSITES = _BACK | {back: there for there, back in _BACK.items()}
_KEEPS = Rule("keep")


@dataclass(frozen=True)
class Instruction:
    """What to do, and with what: an operator, a drawing, a tint or words.

    `rule` says the rest: the region, the line, the factor.
    """

    action: Action
    subject: str = ""
    rule: Rule = _KEEPS

    @property
    def back(self) -> bool:
        """Whether this takes an edit back."""
        return self.action in _BACK.values()

    @property
    def inverse(self) -> Instruction:
        if self.action is Action.TURN:
            return Instruction(Action.TURN, INVERSES[self.subject])
        if self.rule.undoes_itself:
            return self
        return Instruction(_OPPOSITES.get(self.action, self.action), self.subject, self.rule)

    def __str__(self) -> str:
        return f"{self.action} {self.subject}".strip()


_ADD = re.compile(r"\b(add|put|place|draw|insert|paint|include|wearing|give|hang)\b")
_REMOVE = re.compile(
    r"\b(remove|erase|delete|without|clear away|get rid of|take (?:away|off|out)|take\b.*\b(?:away|off))\b"
)
_KEEP = re.compile(
    r"\b(replica|cop(?:y|ies)|duplicate|reproduce|unchanged|unaltered|no (?:alterations|changes))\b"
    r"|\b(?:do not|don't) (?:change|alter|edit) anything\b|\bchange nothing\b(?! but)"
)
_FLIP = re.compile(r"\b(flip|flipped|mirror|mirrored)\b")
_VERTICAL = re.compile(r"\bvertical(?:ly)?\b|\bupside down\b|\btop and bottom\b|\btop to bottom\b")
_ROTATE = re.compile(r"\b(rotate|rotated|turn|spin)\b")
_ANGLES = (
    (re.compile(r"\b180\b|\bhalf (?:a )?turn\b|\bupside down\b"), 180),
    (re.compile(r"\b270\b|\bthree[- ]quarter turn\b"), 270),
    (re.compile(r"\b90\b|\bquarter (?:of a )?turn\b|\ba quarter\b"), 90),
)
_LEFTWARDS = re.compile(r"\b(?:counter|anti)[- ]?clockwise\b|\bto the left\b|(?<!\w)-\s?90\b")
# The way back is named by what it leads to, so it is looked for first.
_TINTS: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...] = (
    (
        "black-and-white",
        re.compile(
            r"\b(?:into|to|in|make it|as) (?:a )?(?:black[- ]and[- ]white|gr[ea]yscale|monochrome)\b|\bdesaturate"
        ),
        re.compile(
            r"\bblack[- ]and[- ]white\b.*\binto\b.*\bcolou?r|\bcolou?ri[sz]e\b|\bnatural colou?rs\b"
        ),
    ),
    (
        "warm",
        re.compile(r"\bwarm(?:er)?\b"),
        re.compile(r"\b(?:take|remove|undo)\b.*\bwarm\b|\bneutral\b"),
    ),
    (
        "winter",
        re.compile(r"\bwinter\b|\bsnow\b"),
        re.compile(r"\bsummer\b.*\bsnow\b|\bno snow\b|\bremove\b.*\bsnow\b"),
    ),
    ("autumn", re.compile(r"\bautumn\b|\bto fall\b"), re.compile(r"\bsummer\b|\bgreen leaves\b")),
    (
        "night",
        re.compile(r"\bnight\b"),
        re.compile(r"\bnoon\b|\bdaytime\b|\bto day\b|\bdaylight\b"),
    ),
    (
        "watercolour",
        re.compile(r"\bwatercolou?r\b|\bpainting\b|\bcartoon\b|\bsketch\b"),
        re.compile(r"\b(?:into|to) a (?:realistic |real )?photo(?:graph)?\b|\bphotorealistic\b"),
    ),
)
_OBJECTS = sorted(
    ((word, name) for name, place in DRAWINGS.items() for word in place.words),
    key=lambda item: -len(item[0]),
)
_OBJECT = re.compile(r"\b(" + "|".join(re.escape(word) for word, _ in _OBJECTS) + r")\b")


def parse(prompt: str) -> Instruction:
    """The instruction in a prompt; a permanent EditorError where there is none.

    The catalogue's wordings are known by heart. In others the first sentence says what to do;
    those after it ("Keep everything else exactly as it is.") would only mislead.
    """
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", _plain(prompt)) if s]
    for count in range(len(sentences), 0, -1):  # whatever else may be said after them
        if known := _catalogued().get(" ".join(sentences[:count])):
            return known
    for sentence in sentences:
        if instruction := _understand(sentence):
            return instruction
    raise EditorError(
        f"the reference editors do not understand {prompt[:120]!r}: they flip, rotate, add and "
        f"remove {', '.join(DRAWINGS)}, and change season, light or style",
        fault=Fault.BAD_REQUEST,
        permanent=True,
    )


def _understand(sentence: str) -> Instruction | None:
    if _KEEP.search(sentence):
        return Instruction(Action.KEEP)
    if _FLIP.search(sentence):
        vertical = _VERTICAL.search(sentence)
        return Instruction(Action.TURN, "flip_vertical" if vertical else "flip_horizontal")
    if _ROTATE.search(sentence) and (operator := _rotation(sentence)):
        return Instruction(Action.TURN, operator)
    if thing := _OBJECT.search(sentence):
        subject = next(name for word, name in _OBJECTS if word == thing[1])
        if _REMOVE.search(sentence):
            return Instruction(Action.ERASE, subject)
        if _ADD.search(sentence):
            return Instruction(Action.DRAW, subject)
    for name, there, back in _TINTS:
        rule = Rule("tint", tint=name)
        if back.search(sentence):
            return Instruction(Action.UNTINT, name, rule)
        if there.search(sentence):
            return Instruction(Action.TINT, name, rule)
    return None


def _rotation(sentence: str) -> str | None:
    for pattern, degrees in _ANGLES:
        if pattern.search(sentence):
            leftwards = degrees != 180 and _LEFTWARDS.search(sentence)
            return f"rotate_{360 - degrees if leftwards else degrees}"
    return None


def _plain(prompt: str) -> str:
    return " ".join(prompt.casefold().split())


@cache
def _catalogued() -> dict[str, Instruction]:
    """Every wording of every pair that has a rule, with what it asks for."""
    known: dict[str, Instruction] = {}
    for pair in catalog.edit_pairs():
        for step in pair.steps:
            if rule := pair.rules.get(step.name.upper()):
                made = _by_rule(pair, rule)
                known[_plain(step.prompt)] = made if step.name.isupper() else made.inverse
        if pair.rule is None:
            continue
        there = _by_rule(pair, pair.rule)
        for wording in pair.wordings:
            known[_plain(wording.forward)] = there
            known[_plain(wording.backward)] = there.inverse
    return known


def _by_rule(pair: catalog.CatalogPair, rule: Rule) -> Instruction:
    match rule.do:
        case "turn":
            return Instruction(Action.TURN, pair.operator)
        case "draw":
            return Instruction(Action.DRAW, pair.object)
        case "tint":
            return Instruction(Action.TINT, rule.tint, rule)
        case "swap":
            return Instruction(Action.SWAP, rule.channels, rule)
        case "write":
            return Instruction(Action.WRITE, rule.words, rule)
        case "rewrite":
            return Instruction(Action.REWRITE, rule.words, rule)
        case "scale":
            return Instruction(Action.SHRINK, f"{rule.factor:g}", rule)
    return Instruction(Action.KEEP)
