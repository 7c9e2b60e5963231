"""Touches of audits: small changes of a forward answer that a model should not mind.

An audit (a test for cheating) asks the model to undo its edit on the touched answer. The image with
which the result is compared is touched in the same way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.audits import marks
from evaluation.audits.plan import Audit
from evaluation.content import operators
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage, clean_wire, encode_jpeg, fit

Values = npt.NDArray[np.float32]

#: Harmless changes: a JPEG save, a narrow crop, a change of brightness. Their strength is random,
#: so that a model cannot store all possible inputs.
JPEG_QUALITIES = (82, 89)
CROPS = (0.015, 0.025)  # of each side's length
GAINS = (0.02, 0.04)


class Touch:
    """The touch of one audit, which depends on the run's secret.

    `edited` is the forward answer of the audited trip, `before` the starting image of that
    trip. Equal arguments always give an equal touch.
    """

    def __init__(
        self, audit: Audit, secret: str, pair: EditPair, before: EncodedImage, edited: EncodedImage
    ) -> None:
        self.pair, self.before, self.edited = pair, before, edited
        random = audit.random(secret)
        self._edited = clean_wire(edited)
        self._operation = ""
        if audit.kind == "mark":
            changed = _changed(before, edited) if pair.change == "local" else None
            touched = marks.with_mark(self._edited.decoded, changed, random)
        else:
            self._operation = str(random.choice(["jpeg", "crop", "gain"]))
            self._quality = int(random.integers(*JPEG_QUALITIES, endpoint=True))
            self._crop = float(random.uniform(*CROPS))
            self._gain = 1 + float(random.choice([-1, 1]) * random.uniform(*GAINS))
            touched = self._altered(self._edited.decoded)
        #: The image sent instead of the forward answer.
        self.sent = clean_wire(EncodedImage.from_image(touched))

    @property
    def words(self) -> str:
        """Return the change in words."""
        if not self._operation:
            return "a mark was painted on it"
        return {
            "jpeg": f"it was saved as JPEG {self._quality}",
            "crop": f"{self._crop:.1%} of its sides were cut off",
            "gain": f"its brightness was changed by {self._gain - 1:+.1%}",
        }[self._operation]

    @property
    def operators_to_try(self) -> list[str]:
        """Return the operators that may turn an answer into a restored image ("": none).

        For flips and turns, any flip or turn is accepted: audits do not test the inverse edit,
        and a model that cannot turn images is not cheating.
        """
        if self.pair.change != "exact":
            return [""]
        quarter = self.pair.operator in operators.QUARTER_TURNS
        turns = [
            name for name in operators.OPERATORS if (name in operators.QUARTER_TURNS) == quarter
        ]
        return [operators.INVERSES[self.pair.operator], "", *turns]

    def mark_difference(self, size: tuple[int, int], operator: str = "") -> Values:
        """Return the change that the mark should cause in a restored image of this size."""
        with_mark, without = (
            np.asarray(fit(_turned(image, operator), size), dtype=np.float32) / np.float32(255)
            for image in (self.sent.decoded, self._edited.decoded)
        )
        # The mark is the only difference, since a second call of `clean_wire` changes nothing.
        difference: Values = with_mark - without
        return difference

    def expected(self, image: Image.Image, operator: str = "") -> Image.Image:
        """Apply this touch to a restored image or to the source."""
        if self._operation:
            return self._altered(image)
        values = np.asarray(image, dtype=np.float32) / 255 + self.mark_difference(
            image.size, operator
        )
        return Image.fromarray(np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8))

    def _altered(self, image: Image.Image) -> Image.Image:
        if self._operation == "jpeg":
            return EncodedImage.from_bytes(encode_jpeg(image, self._quality)).decoded
        if self._operation == "gain":
            scaled = np.asarray(image, dtype=np.float32) * self._gain
            return Image.fromarray(np.rint(np.clip(scaled, 0, 255)).astype(np.uint8))
        width, height = image.size
        box = (width * self._crop / 2, height * self._crop / 2)
        corners = (*box, width - box[0], height - box[1])
        return image.resize(image.size, Image.Resampling.BICUBIC, box=corners)


def _turned(image: Image.Image, operator: str) -> Image.Image:
    return operators.apply(operator, image) if operator else image


def _changed(before: EncodedImage, edited: EncodedImage) -> Values:
    """Return how much the forward edit changed each pixel of a small copy."""
    size = (64, 64)
    x, y = (np.asarray(fit(p.decoded, size), dtype=np.float32) / 255 for p in (before, edited))
    difference: Values = np.abs(x - y).mean(axis=2)
    return difference
