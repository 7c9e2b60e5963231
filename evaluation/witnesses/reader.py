"""Read the words that an edit requests, letter by letter."""

from __future__ import annotations

from PIL import Image

from evaluation.content.suites import EditPair
from evaluation.metrics.networks.text_reader import TextReader, best_match, text_reader
from evaluation.witnesses.base import AmountWitness, TripToJudge, requested_thing

# Two unrelated words of similar length, such as BAKERY and LIBRARY, have about this likeness.
CHANCE = 0.6


class Reader(AmountWitness):
    """Measure the share of the letters of the requested words that can be read."""

    name, label, version = "reader", "reading", TextReader.version
    licence = "Apache-2.0"
    can = "horizontal words in Latin letters, as large as a headline"
    cannot = "small print, handwriting, rotated letters or letters in perspective"
    weights, modules = TextReader.weights, TextReader.modules
    min_increase = {"words": 0.4}

    def thing(self, pair: EditPair) -> str | None:
        return requested_thing(pair, self.name)

    def limit(self, thing: str) -> float:
        return self.min_increase["words"]

    def amount(self, image: Image.Image, thing: str, trip: TripToJudge) -> float | None:
        return likeness(thing, text_reader().lines(image))


def likeness(words: str, lines: list[str]) -> float:
    """Return the likeness of the words to their best match in the lines, scaled so chance is 0."""
    return max(0.0, (best_match(words, lines) - CHANCE) / (1 - CHANCE))
