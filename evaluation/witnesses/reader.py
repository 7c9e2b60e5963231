"""The words that an edit asks for, read letter by letter."""

from __future__ import annotations

from PIL import Image

from evaluation.content.suites import EditPair
from evaluation.metrics.networks.text_reader import TextReader, best_match, text_reader
from evaluation.witnesses.base import AmountWitness, TripToJudge, requested_thing

# The likeness of two unrelated words of the same length, such as BAKERY and LIBRARY.
CHANCE = 0.6


class Reader(AmountWitness):
    """The share of the requested words that can be read, letter by letter: 1 is all."""

    name, label, version = "reader", "reading", TextReader.version
    licence = "Apache-2.0"
    can = "words in Latin letters, upright and as large as a headline"
    cannot = "small print, handwriting, letters that are turned or in perspective"
    weights, modules = TextReader.weights, TextReader.modules
    rise = {"words": 0.4}

    def thing(self, pair: EditPair) -> str | None:
        return requested_thing(pair, self.name)

    def limit(self, thing: str) -> float:
        return self.rise["words"]

    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        return likeness(thing, text_reader().lines(image))


def likeness(words: str, lines: list[str]) -> float:
    """Return the share of the words in their best match beyond what chance gives."""
    return max(0.0, (best_match(words, lines) - CHANCE) / (1 - CHANCE))
