"""Registry of the witnesses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from evaluation.metrics.base import Metric
from evaluation.registry import Registry
from evaluation.torch_compat import one_thread
from evaluation.witnesses.base import Evidence, TripToJudge, Witness, WitnessError

__all__ = [
    "LOOKING",
    "OF_YARDSTICKS",
    "WITNESSES",
    "Evidence",
    "Panel",
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
        "geometry": "evaluation.witnesses.rules:Geometry",
        "hue": "evaluation.witnesses.rules:Hue",
        "reader": "evaluation.witnesses.reader:Reader",
        "imagenet": "evaluation.witnesses.by_metric:ImageNetClasses",
        "detector": "evaluation.witnesses.detector:CocoDetector",
        "clip": "evaluation.witnesses.by_metric:ClipDirection",
        "identity": "evaluation.witnesses.by_metric:SamePerson",
        "rest": "evaluation.witnesses.detector:Rest",
        "judge": "evaluation.witnesses.judge:Judge",
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


class Panel:
    """The witnesses that can look here; `not_run` says why the others cannot."""

    def __init__(
        self, names: Iterable[str] | None = None, metrics: Mapping[str, Metric] | None = None
    ) -> None:
        """`metrics` are those that run beside it, whose networks it can look with."""
        self.witnesses: dict[str, Witness] = {}
        self.not_run: dict[str, str] = {}
        for name in LOOKING if names is None else names:
            witness = load_witness(name)
            if reasons := witness.missing():
                self.not_run[name] = "; ".join(reasons)
            else:
                witness.share(metrics or {})
                self.witnesses[name] = witness

    def keep(self, names: Collection[str]) -> None:
        """Hear these alone."""
        self.witnesses = {n: witness for n, witness in self.witnesses.items() if n in names}

    def hear(self, trip: TripToJudge) -> list[dict[str, Any]]:
        """What each of them says that knows something of it."""
        with one_thread():
            found = [witness.look(trip) for witness in self.witnesses.values()]
        return [evidence.to_dict() for evidence in found if evidence]

    def provenance(self) -> dict[str, Any]:
        """What their words depend on."""
        return {
            name: {"version": witness.version, "weights_sha256": witness.weights_sha256}
            for name, witness in self.witnesses.items()
        }
