"""Instructions of the reference editors: parsed from prompts, applied to pixels.

Both follow the rules of evaluation.content.rules. In an annotated image things go where its
annotations place them. A drawing is located again by the same rule, so that removing it needs
no detection.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont, ImageOps

from evaluation.content import catalog, operators, placement
from evaluation.content.annotations import UNANNOTATED, Annotations, Box
from evaluation.content.operators import INVERSES
from evaluation.content.placement import THINGS
from evaluation.content.rules import LINES, TINTS, Rule
from evaluation.editors import drawings
from evaluation.errors import EditorError, Fault

Mask: TypeAlias = npt.NDArray[np.bool_]
#: Returns the image with the masked pixels filled in, all others unchanged.
FillIn: TypeAlias = Callable[[Image.Image, Mask], Image.Image]

INPAINT_RADIUS = 5
BAND_PIXELS = 2_000_000
# Red exceeds blue by this much, of 255, in things that people call red.
CLEARLY_RED = 40
# Words fill this share of their box.
FILLED = 0.9
BOLD = 0.04  # of the letters' size, on every side
# The pixels furthest from the ground are letters, the rest may be their blurred edges.
INK_SHARE = 0.04


#: The words for following each rule, and for undoing it.
_VERBS = {
    "keep": ("keep", "keep"),
    "turn": ("turn", "turn"),
    "draw": ("draw", "erase"),
    "tint": ("tint", "untint"),
    "swap": ("swap", "unswap"),
    "write": ("write", "unwrite"),
    "rewrite": ("rewrite", "unrewrite"),
    "scale": ("shrink", "enlarge"),
}


@dataclass(frozen=True)
class Instruction:
    """A rule to follow, or to undo (`back`), and its subject.

    The subject is an operator, a drawing, a tint or words.
    """

    rule: Rule
    subject: str = ""
    back: bool = False

    @property
    def action(self) -> str:
        """The word for what is done, such as "draw" or "erase"."""
        return _VERBS[self.rule.do][self.back]

    @property
    def inverse(self) -> Instruction:
        if self.rule.do == "turn":
            return replace(self, subject=INVERSES[self.subject])
        if self.rule.do == "keep" or self.rule.undoes_itself:
            return self
        return replace(self, back=not self.back)

    def __str__(self) -> str:
        return f"{self.action} {self.subject}".strip()


KEEP, TURN, DRAW = Rule("keep"), Rule("turn"), Rule("draw")
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
# The way back is named by its result, so it is matched first.
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
    ((word, name) for name, thing in THINGS.items() for word in thing.words),
    key=lambda item: -len(item[0]),
)
_OBJECT = re.compile(r"\b(" + "|".join(re.escape(word) for word, _ in _OBJECTS) + r")\b")


def parse(prompt: str) -> Instruction:
    """Return the instruction in a prompt. Raises a permanent EditorError without one.

    The catalogue's wordings are matched exactly. In others only the first sentence counts; those
    after it ("Keep everything else exactly as it is.") would mislead.
    """
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", _plain(prompt)) if s]
    for count in range(len(sentences), 0, -1):  # any text may follow them
        if instruction := _catalogued().get(" ".join(sentences[:count])):
            return instruction
    for sentence in sentences:
        if instruction := _understand(sentence):
            return instruction
    raise EditorError(
        f"the reference editors do not understand {prompt[:120]!r}: they flip, rotate, add and "
        f"remove {', '.join(THINGS)}, and change season, light or style",
        fault=Fault.BAD_REQUEST,
        permanent=True,
    )


def _understand(sentence: str) -> Instruction | None:
    if _KEEP.search(sentence):
        return Instruction(KEEP)
    if _FLIP.search(sentence):
        vertical = _VERTICAL.search(sentence)
        return Instruction(TURN, "flip_vertical" if vertical else "flip_horizontal")
    if _ROTATE.search(sentence) and (operator := _rotation(sentence)):
        return Instruction(TURN, operator)
    if thing := _OBJECT.search(sentence):
        subject = next(name for word, name in _OBJECTS if word == thing[1])
        if _REMOVE.search(sentence):
            return Instruction(DRAW, subject, back=True)
        if _ADD.search(sentence):
            return Instruction(DRAW, subject)
    for name, there, back in _TINTS:
        rule = Rule("tint", tint=name)
        if back.search(sentence):
            return Instruction(rule, name, back=True)
        if there.search(sentence):
            return Instruction(rule, name)
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
    """Return every wording of every pair with a rule, with its instruction."""
    instructions: dict[str, Instruction] = {}
    for pair in catalog.edit_pairs():
        for step in pair.steps:
            if rule := pair.rules.get(step.name.upper()):
                made = _by_rule(pair, rule)
                instructions[_plain(step.prompt)] = made if step.name.isupper() else made.inverse
        if pair.rule is None:
            continue
        there = _by_rule(pair, pair.rule)
        for wording in pair.wordings:
            instructions[_plain(wording.forward)] = there
            instructions[_plain(wording.backward)] = there.inverse
    return instructions


def _by_rule(pair: catalog.CatalogPair, rule: Rule) -> Instruction:
    subjects = {
        "turn": pair.operator,
        "draw": pair.object,
        "tint": rule.tint,
        "swap": rule.channels,
        "write": rule.words,
        "rewrite": rule.words,
        "scale": f"{rule.factor:g}",
    }
    return Instruction(rule, subjects.get(rule.do, ""))


def fill_in(image: Image.Image, mask: Mask) -> Image.Image:
    """Fill the masked pixels in from around them (Telea's inpainting)."""
    import cv2

    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return image
    around = 4 * rim(image) + INPAINT_RADIUS
    left, top = max(int(columns[0]) - around, 0), max(int(rows[0]) - around, 0)
    right = min(int(columns[-1]) + 1 + around, image.width)
    bottom = min(int(rows[-1]) + 1 + around, image.height)
    hole = widened(mask[top:bottom, left:right], rim(image))
    pixels = np.ascontiguousarray(np.asarray(image.crop((left, top, right, bottom))))
    filled = np.asarray(
        cv2.inpaint(pixels, hole.astype(np.uint8), INPAINT_RADIUS, cv2.INPAINT_TELEA)
    )
    result = image.copy()
    result.paste(Image.fromarray(filled), (left, top))
    return result


def rim(image: Image.Image) -> int:
    """Return the width of a rim that is filled in too: earlier damage smears edges."""
    return max(2, min(image.size) // 128)


def widened(mask: Mask, pixels: int) -> Mask:
    """Widen the mask by so many pixels."""
    import cv2

    side = 2 * pixels + 1
    return np.asarray(cv2.dilate(mask.astype(np.uint8), np.ones((side, side), np.uint8))) > 0


def follow(
    instruction: Instruction,
    image: Image.Image,
    places: Annotations = UNANNOTATED,
    fill: FillIn = fill_in,
) -> Image.Image:
    """Edit the image by rule and change nothing else; `fill` closes the holes."""
    rule, subject, back = instruction.rule, instruction.subject, instruction.back
    match rule.do:
        case "turn":
            return operators.apply(subject, image)
        case "draw" if back:
            return fill(image, drawings.mask(subject, image.size, places))
        case "draw":
            return drawings.draw(subject, image, places)
        case "tint":
            return _tinted(image, rule.tint, region(rule.region, image, places), back)
        case "swap":
            return _swapped(image, rule, back)
        case "write" if back:
            return fill(image, _line(image.size, rule) > 0)
        case "write":
            return _written(image, rule)
        case "rewrite":
            return _rewritten(image, rule, places, back)
        case "scale":
            return _enlarged(image, rule) if back else _shrunk(image, rule)
    return image


def region(name: str, image: Image.Image, places: Annotations) -> Mask:
    """Return the pixels of a region of the image; all of them if it is not annotated."""
    shape = (image.height, image.width)
    if name == "whole":
        return np.ones(shape, bool)
    if name == "wall":
        boxes = places.wall
    else:
        box = placement.region(name, places)
        boxes = (box,) if box else ()
    mask = Image.new("1", image.size)
    pen = ImageDraw.Draw(mask)
    for box in boxes:
        (pen.ellipse if name in ("face", "mouth") else pen.rectangle)(_corners(box, image), 1)
    if name == "hair" and places.face:
        pen.ellipse(_corners(places.face, image), 0)
    return np.asarray(mask) if boxes else np.ones(shape, bool)


def _corners(box: Box, image: Image.Image) -> tuple[int, int, int, int]:
    """Return the first and the last pixel of a box."""
    left, top, right, bottom = (
        round(v * side) for v, side in zip(box, image.size * 2, strict=True)
    )
    return left, top, max(right - 1, left), max(bottom - 1, top)


def _tinted(image: Image.Image, tint: str, where: Mask, back: bool) -> Image.Image:
    matrix, offset = TINTS[tint]
    inverse = np.linalg.inv(matrix)
    result = np.array(image)
    # The intermediate values of a large image would not fit into memory.
    rows = max(1, BAND_PIXELS // image.width)
    for top in range(0, image.height, rows):
        band, here = result[top : top + rows], where[top : top + rows]
        values = band[here].astype(np.float64) / 255
        changed = (values - offset) @ inverse.T if back else values @ matrix.T + offset
        band[here] = np.rint(np.clip(changed, 0, 1) * 255)
    return Image.fromarray(result)


def _swapped(image: Image.Image, rule: Rule, back: bool) -> Image.Image:
    pixels = np.asarray(image)
    first, second = ("rgb".index(channel) for channel in rule.channels)
    result = pixels.copy()
    result[..., [first, second]] = result[..., [second, first]]
    if rule.region != "red":
        return Image.fromarray(result)
    red, blue = pixels[..., 0].astype(int), pixels[..., 2].astype(int)
    stay = (blue - red if back else red - blue) < CLEARLY_RED
    result[stay] = pixels[stay]
    return Image.fromarray(result)


def _written(image: Image.Image, rule: Rule) -> Image.Image:
    result = image.copy()
    result.paste(rule.colour, mask=Image.fromarray(_line(image.size, rule)))
    return result


def _line(size: tuple[int, int], rule: Rule) -> npt.NDArray[np.uint8]:
    """Return the share of each pixel that the letters of a rule cover, 0..255."""
    x, y, high = LINES[rule.line]
    half = 0.46 if x == 0.5 else 1 - x - 0.02
    box = (x - half, y - high / 2, x + half, y + high / 2)
    return _lettering(size, box, rule.words)


def _rewritten(image: Image.Image, rule: Rule, places: Annotations, back: bool) -> Image.Image:
    new = rule.was if back else rule.words
    box = next((words.box for words in places.text if words.text == rule.was), None)
    if box is None:
        box = placement.region("text", places) or (0.1, 0.8, 0.9, 0.95)
    left, top, right, bottom = _corners(box, image)
    part = np.asarray(image.crop((left, top, right + 1, bottom + 1))).astype(np.float64)
    ground, ink = _ground_and_ink(part)
    result = image.copy()
    result.paste(Image.fromarray(np.rint(np.clip(ground, 0, 255)).astype(np.uint8)), (left, top))
    result.paste(tuple(ink), mask=Image.fromarray(_lettering(image.size, box, new)))
    return result


def _ground_and_ink(
    part: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], tuple[int, int, int]]:
    """Return the ground of written words, a plane of colour, and the letters' colour."""
    high, wide = part.shape[:2]
    y, x = np.mgrid[0:high, 0:wide]
    terms = np.stack([np.ones_like(x), x / wide, y / high], axis=-1).reshape(-1, 3).astype(float)
    colours = part.reshape(-1, 3)
    rim = ((x < 2) | (y < 2) | (x >= wide - 2) | (y >= high - 2)).ravel()
    away = np.abs(colours - np.median(colours[rim], axis=0)).sum(axis=1)
    # Letters are the lesser part of their box: the nearer half of the pixels is ground.
    near = away <= np.median(away)
    plane = terms @ np.linalg.lstsq(terms[near], colours[near], rcond=None)[0]
    apart = np.abs(colours - plane).sum(axis=1)
    ink = np.median(colours[apart >= np.quantile(apart, 1 - INK_SHARE)], axis=0)
    return plane.reshape(part.shape), (round(ink[0]), round(ink[1]), round(ink[2]))


def _lettering(size: tuple[int, int], box: Box, words: str) -> npt.NDArray[np.uint8]:
    """Draw words as large as their box allows, in one or more lines (0..255)."""
    mask = Image.new("L", size)
    pen = ImageDraw.Draw(mask)
    wide, high = (box[2] - box[0]) * size[0] * FILLED, (box[3] - box[1]) * size[1] * FILLED
    best, lines = 0.0, words
    for text in _broken(words):
        left, top, right, bottom = pen.multiline_textbbox(
            (0, 0), text, ImageFont.load_default(100), align="center"
        )
        if (scale := min(wide / (right - left), high / (bottom - top))) > best:
            best, lines = scale, text
    centre = ((box[0] + box[2]) / 2 * size[0], (box[1] + box[3]) / 2 * size[1])
    size_of_letters = max(4.0, 100 * best)
    # Bold for visibility: the font that comes with Pillow is thin.
    stroke = size_of_letters * BOLD
    font = ImageFont.load_default(size_of_letters)
    pen.multiline_text(centre, lines, 255, font, anchor="mm", align="center", stroke_width=stroke)
    return np.asarray(mask)


def _broken(words: str) -> list[str]:
    """Return the words in one line, and in two lines for a break at each space."""
    spaces = [at for at, letter in enumerate(words) if letter == " "]
    return [words, *(f"{words[:at]}\n{words[at + 1 :]}" for at in spaces)]


def _shrunk(image: Image.Image, rule: Rule) -> Image.Image:
    left, top, wide, high = _middle(image.size, rule.factor)
    small = image.resize((wide, high), Image.Resampling.LANCZOS)
    right, bottom = image.width - left - wide, image.height - top - high
    if rule.rim == "white":
        return ImageOps.expand(small, (left, top, right, bottom), "white")
    rim = ((top, bottom), (left, right), (0, 0))
    return Image.fromarray(np.pad(np.asarray(small), rim, mode="reflect"))


def _enlarged(image: Image.Image, rule: Rule) -> Image.Image:
    left, top, wide, high = _middle(image.size, rule.factor)
    middle = image.crop((left, top, left + wide, top + high))
    return middle.resize(image.size, Image.Resampling.LANCZOS)


def _middle(size: tuple[int, int], factor: float) -> tuple[int, int, int, int]:
    wide, high = round(size[0] * factor), round(size[1] * factor)
    return (size[0] - wide) // 2, (size[1] - high) // 2, wide, high
