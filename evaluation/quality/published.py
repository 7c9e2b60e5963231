"""How the values of no-reference metrics read: label, direction and the usual range.

The metrics and their ranges are those of Banana100's Table 2, under the names they have in pyiqa.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Described:
    """How the values of one metric read."""

    label: str
    higher_is_better: bool
    #: The usual range, which a value may leave; None where nobody told.
    low: float | None = None
    high: float | None = None

    def gained(self, before: float, after: float) -> float:
        """How much better the second value is, in the metric's own unit."""
        return after - before if self.higher_is_better else before - after

    def points(self, before: float, after: float) -> float | None:
        """The same as points of a hundred of the usual range; None where that is not known."""
        if self.low is None or self.high is None:
            return None
        return 100 * self.gained(before, after) / (self.high - self.low)


#: A model that was asked outright whether a picture is worn: 1 is yes (witnesses/judge).
WORN = "worn"
ASKED = Described("Asked “worn?”", False, 0, 1)

PUBLISHED: dict[str, Described] = {
    "arniqa": Described("ARNIQA", True, 0, 1),
    "brisque": Described("BRISQUE", False, 0, 150),
    "clipiqa": Described("CLIP-IQA", True, 0, 1),
    "cnniqa": Described("CNNIQA", True, 0, 1),
    "dbcnn": Described("DBCNN", True, 0, 1),
    "hyperiqa": Described("HyperIQA", True, 0, 1),
    "ilniqe": Described("ILNIQE", False, 0, 100),
    "liqe": Described("LIQE", True, 1, 5),
    "maniqa": Described("MANIQA", True, 0, 1),
    "musiq": Described("MUSIQ", True, 0, 100),
    "nima": Described("NIMA", True, 0, 10),
    "niqe": Described("NIQE", False, 0, 100),
    "nrqm": Described("NRQM", True, 0, 10),
    "paq2piq": Described("PaQ-2-PiQ", True, 0, 100),
    "pi": Described("PI", False),
    "piqe": Described("PIQE", False, 0, 100),
    "qalign": Described("Q-Align", True, 1, 5),
    "qualiclip": Described("QualiCLIP", True, 0, 1),
    "topiq_nr": Described("TOPIQ NR", True, 0, 1),
    "tres": Described("TReS", True, 0, 100),
    "wadiqam_nr": Described("WaDIQaM", True, -1, 0.1),
    "visualquality_r1": Described("VisualQuality-R1", True, 1, 5),
    "rali": Described("RALI", True, 1, 5),
}
