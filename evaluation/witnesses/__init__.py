"""Registry of the witnesses."""

from __future__ import annotations

from evaluation.registry import Registry
from evaluation.witnesses.base import Evidence, TripToJudge, Witness, WitnessError

__all__ = [
    "LOOKING",
    "OF_YARDSTICKS",
    "WITNESSES",
    "Evidence",
    "TripToJudge",
    "Witness",
    "WitnessError",
    "load_witness",
    "witness_class",
    "witness_label",
]

#: In the order in which they are told of.
WITNESSES: Registry[Witness] = Registry(
    "witness",
    WitnessError,
    {
        "parsing": "evaluation.witnesses.parsing:FaceParsing",
        "geometry": "evaluation.witnesses.geometry:Geometry",
        "hue": "evaluation.witnesses.hue:Hue",
        "reader": "evaluation.witnesses.reader:Reader",
        "imagenet": "evaluation.witnesses.imagenet:ImageNetClasses",
        "detector": "evaluation.witnesses.detector:CocoDetector",
        "clip": "evaluation.witnesses.clip_direction:ClipDirection",
        "identity": "evaluation.witnesses.same_person:SamePerson",
        "rest": "evaluation.witnesses.rest:Rest",
        "judge": "evaluation.witnesses.judge.judge:Judge",
    },
)
#: Return the class with its label, licence and needs, without loading torch.
witness_class = WITNESSES.find
#: Return a witness; its weights load when it first looks.
load_witness = WITNESSES.load
#: Those that look by themselves whenever a trip is scored; a judge is asked apart, at a price.
LOOKING = tuple(name for name in WITNESSES if name != "judge")
#: Those heard on reference editors, which edit by rule: that one drew a ball is known, so only
#: they are asked whose word can end a chain, or takes no time beside the metrics.
OF_YARDSTICKS = ("parsing", "geometry", "hue", "identity")


def witness_label(name: str) -> str:
    """As people read it; the name itself of one that we no longer know."""
    return witness_class(name).label if name in WITNESSES else name
