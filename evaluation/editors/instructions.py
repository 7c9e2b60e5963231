"""Instructions of the reference editors: parsed from prompts, applied to pixels.

Parsing and editing follow the rules of evaluation.content.rules. In an annotated image, drawings go
where the annotations place them. The same rule locates a drawing again, so removing it needs no
detection.
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
#: A function that fills in the masked pixels and leaves all others unchanged.
FillIn: TypeAlias = Callable[[Image.Image, Mask], Image.Image]

INPAINT_RADIUS = 5
BAND_PIXELS = 2_000_000
# In things that people call red, red exceeds blue by at least this much (of 255).
CLEARLY_RED = 40
# Text is scaled to fill this share of its box.
FILL_SHARE = 0.9
BOLD = 0.04  # stroke added on every side, as a share of the font size
# Only the pixels that differ most from the background are surely ink; others may be soft edges.
INK_SHARE = 0.04


#: For each rule: the verb for following it, and the verb for undoing it.
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
    """A rule to follow, or to undo, and its subject.

    The rule determines the kind of subject: an operator, a drawing, a tint, two colour channels,
    a text or a factor.
    """

    rule: Rule
    subject: str = ""
    undo: bool = False

    @property
    def action(self) -> str:
        """The verb of the instruction, such as "draw" or "erase"."""
        return _VERBS[self.rule.do][self.undo]

    @property
    def inverse(self) -> Instruction:
        if self.rule.do == "turn":
            return replace(self, subject=INVERSES[self.subject])
        if self.rule.do == "keep" or self.rule.undoes_itself:
            return self
        return replace(self, undo=not self.undo)

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
# Each tint has a name, a forward pattern and an inverse pattern. An inverse prompt may match both
# patterns, so the inverse pattern is tried first.
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
    """Parse the instruction in a prompt. Raises a permanent EditorError if there is none.

    The catalogue's wordings are matched exactly. In other prompts the first sentence with an
    instruction counts: later ones ("Keep everything else exactly as it is.") would mislead.
    """
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", _normalised(prompt)) if s]
    for count in range(len(sentences), 0, -1):  # any text may follow a catalogued wording
        if instruction := _catalogue_instructions().get(" ".join(sentences[:count])):
            return instruction
    for sentence in sentences:
        if instruction := _parse_sentence(sentence):
            return instruction
    raise EditorError(
        f"the reference editors do not understand {prompt[:120]!r}: they flip, rotate, add and "
        f"remove {', '.join(THINGS)}, and change season, light or style",
        fault=Fault.BAD_REQUEST,
        permanent=True,
    )


def _parse_sentence(sentence: str) -> Instruction | None:
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
            return Instruction(DRAW, subject, undo=True)
        if _ADD.search(sentence):
            return Instruction(DRAW, subject)
    for name, forward, inverse in _TINTS:
        rule = Rule("tint", tint=name)
        if inverse.search(sentence):
            return Instruction(rule, name, undo=True)
        if forward.search(sentence):
            return Instruction(rule, name)
    return None


def _rotation(sentence: str) -> str | None:
    for pattern, degrees in _ANGLES:
        if pattern.search(sentence):
            leftwards = degrees != 180 and _LEFTWARDS.search(sentence)
            return f"rotate_{360 - degrees if leftwards else degrees}"
    return None


def _normalised(prompt: str) -> str:
    return " ".join(prompt.casefold().split())


@cache
def _catalogue_instructions() -> dict[str, Instruction]:
    """Return the instruction of every prompt in the catalogue's edit pairs that have rules."""
    instructions: dict[str, Instruction] = {}
    for pair in catalog.edit_pairs():
        for step in pair.steps:
            if rule := pair.rules.get(step.name.upper()):
                forward = _instruction(pair, rule)
                instructions[_normalised(step.prompt)] = (
                    forward if step.name.isupper() else forward.inverse
                )
        if pair.rule is None:
            continue
        forward = _instruction(pair, pair.rule)
        for wording in pair.wordings:
            instructions[_normalised(wording.forward)] = forward
            instructions[_normalised(wording.backward)] = forward.inverse
    return instructions


def _instruction(pair: catalog.CatalogPair, rule: Rule) -> Instruction:
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
    """Fill in the masked pixels from their surroundings (Telea's inpainting)."""
    import cv2

    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return image
    margin = 4 * hole_margin(image) + INPAINT_RADIUS
    left, top = max(int(columns[0]) - margin, 0), max(int(rows[0]) - margin, 0)
    right = min(int(columns[-1]) + 1 + margin, image.width)
    bottom = min(int(rows[-1]) + 1 + margin, image.height)
    hole = widened(mask[top:bottom, left:right], hole_margin(image))
    pixels = np.ascontiguousarray(np.asarray(image.crop((left, top, right, bottom))))
    filled = np.asarray(
        cv2.inpaint(pixels, hole.astype(np.uint8), INPAINT_RADIUS, cv2.INPAINT_TELEA)
    )
    result = image.copy()
    result.paste(Image.fromarray(filled), (left, top))
    return result


def hole_margin(image: Image.Image) -> int:
    """Return by how many pixels to widen a hole: earlier damage may have smeared its edges."""
    return max(2, min(image.size) // 128)


def widened(mask: Mask, pixels: int) -> Mask:
    """Widen the mask by `pixels` on every side."""
    import cv2

    side = 2 * pixels + 1
    return np.asarray(cv2.dilate(mask.astype(np.uint8), np.ones((side, side), np.uint8))) > 0


def follow(
    instruction: Instruction,
    image: Image.Image,
    places: Annotations = UNANNOTATED,
    fill: FillIn = fill_in,
) -> Image.Image:
    """Follow the instruction and change nothing else; `fill` paints over removed objects."""
    rule, subject, undo = instruction.rule, instruction.subject, instruction.undo
    match rule.do:
        case "turn":
            return operators.apply(subject, image)
        case "draw" if undo:
            return fill(image, drawings.mask(subject, image.size, places))
        case "draw":
            return drawings.draw(subject, image, places)
        case "tint":
            return _tinted(image, rule.tint, region(rule.region, image, places), undo)
        case "swap":
            return _swapped(image, rule, undo)
        case "write" if undo:
            return fill(image, _line_coverage(image.size, rule) > 0)
        case "write":
            return _written(image, rule)
        case "rewrite":
            return _rewritten(image, rule, places, undo)
        case "scale":
            return _enlarged(image, rule) if undo else _shrunk(image, rule)
    return image


def region(name: str, image: Image.Image, places: Annotations) -> Mask:
    """Return the pixels of a region; the whole image if the region is not annotated."""
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
    """Return the coordinates of the first and the last pixel of a box."""
    left, top, right, bottom = (
        round(v * side) for v, side in zip(box, image.size * 2, strict=True)
    )
    return left, top, max(right - 1, left), max(bottom - 1, top)


def _tinted(image: Image.Image, tint: str, where: Mask, undo: bool) -> Image.Image:
    matrix, offset = TINTS[tint]
    inverse = np.linalg.inv(matrix)
    result = np.array(image)
    # In bands: the floats of a whole large image would not fit into memory.
    rows = max(1, BAND_PIXELS // image.width)
    for top in range(0, image.height, rows):
        band, here = result[top : top + rows], where[top : top + rows]
        values = band[here].astype(np.float64) / 255
        changed = (values - offset) @ inverse.T if undo else values @ matrix.T + offset
        band[here] = np.rint(np.clip(changed, 0, 1) * 255)
    return Image.fromarray(result)


def _swapped(image: Image.Image, rule: Rule, undo: bool) -> Image.Image:
    pixels = np.asarray(image)
    first, second = ("rgb".index(channel) for channel in rule.channels)
    result = pixels.copy()
    result[..., [first, second]] = result[..., [second, first]]
    if rule.region != "red":
        return Image.fromarray(result)
    red, blue = pixels[..., 0].astype(int), pixels[..., 2].astype(int)
    not_red = (blue - red if undo else red - blue) < CLEARLY_RED
    result[not_red] = pixels[not_red]
    return Image.fromarray(result)


def _written(image: Image.Image, rule: Rule) -> Image.Image:
    result = image.copy()
    result.paste(rule.colour, mask=Image.fromarray(_line_coverage(image.size, rule)))
    return result


def _line_coverage(size: tuple[int, int], rule: Rule) -> npt.NDArray[np.uint8]:
    """Return how much of each pixel the rule's line of text covers, 0..255."""
    x, y, high = LINES[rule.line]
    half = 0.46 if x == 0.5 else 1 - x - 0.02
    box = (x - half, y - high / 2, x + half, y + high / 2)
    return _lettering(size, box, rule.words)


def _rewritten(image: Image.Image, rule: Rule, places: Annotations, undo: bool) -> Image.Image:
    new = rule.was if undo else rule.words
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
    """Estimate the background of a text, as a plane of colour, and the colour of its ink."""
    height, width = part.shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    terms = np.stack([np.ones_like(x), x / width, y / height], axis=-1).reshape(-1, 3).astype(float)
    colours = part.reshape(-1, 3)
    rim = ((x < 2) | (y < 2) | (x >= width - 2) | (y >= height - 2)).ravel()
    distance = np.abs(colours - np.median(colours[rim], axis=0)).sum(axis=1)
    # Letters cover less than half of their box. So at least half of the pixels are background: those
    # with the colours nearest to the rim's.
    ground = distance <= np.median(distance)
    plane = terms @ np.linalg.lstsq(terms[ground], colours[ground], rcond=None)[0]
    contrast = np.abs(colours - plane).sum(axis=1)
    ink = np.median(colours[contrast >= np.quantile(contrast, 1 - INK_SHARE)], axis=0)
    return plane.reshape(part.shape), (round(ink[0]), round(ink[1]), round(ink[2]))


def _lettering(size: tuple[int, int], box: Box, words: str) -> npt.NDArray[np.uint8]:
    """Draw words as large as their box allows, in one or two lines; return the mask, 0..255."""
    mask = Image.new("L", size)
    pen = ImageDraw.Draw(mask)
    wide, high = (box[2] - box[0]) * size[0] * FILL_SHARE, (box[3] - box[1]) * size[1] * FILL_SHARE
    best, lines = 0.0, words
    for text in _line_breaks(words):
        left, top, right, bottom = pen.multiline_textbbox(
            (0, 0), text, ImageFont.load_default(100), align="center"
        )
        if (scale := min(wide / (right - left), high / (bottom - top))) > best:
            best, lines = scale, text
    centre = ((box[0] + box[2]) / 2 * size[0], (box[1] + box[3]) / 2 * size[1])
    font_size = max(4.0, 100 * best)
    # Bold, because Pillow's built-in font is thin.
    stroke = font_size * BOLD
    font = ImageFont.load_default(font_size)
    pen.multiline_text(centre, lines, 255, font, anchor="mm", align="center", stroke_width=stroke)
    return np.asarray(mask)


def _line_breaks(words: str) -> list[str]:
    """Return the words in one line, then broken into two at each space."""
    spaces = [at for at, letter in enumerate(words) if letter == " "]
    return [words, *(f"{words[:at]}\n{words[at + 1 :]}" for at in spaces)]


def _shrunk(image: Image.Image, rule: Rule) -> Image.Image:
    left, top, wide, high = _central_box(image.size, rule.factor)
    small = image.resize((wide, high), Image.Resampling.LANCZOS)
    right, bottom = image.width - left - wide, image.height - top - high
    if rule.rim == "white":
        return ImageOps.expand(small, (left, top, right, bottom), "white")
    rim = ((top, bottom), (left, right), (0, 0))
    return Image.fromarray(np.pad(np.asarray(small), rim, mode="reflect"))


def _enlarged(image: Image.Image, rule: Rule) -> Image.Image:
    left, top, wide, high = _central_box(image.size, rule.factor)
    middle = image.crop((left, top, left + wide, top + high))
    return middle.resize(image.size, Image.Resampling.LANCZOS)


def _central_box(size: tuple[int, int], factor: float) -> tuple[int, int, int, int]:
    wide, high = round(size[0] * factor), round(size[1] * factor)
    return (size[0] - wide) // 2, (size[1] - high) // 2, wide, high
