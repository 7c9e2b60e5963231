"""The registry of witnesses: automatic checks of whether an edit was made and undone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from evaluation.metrics.base import Metric
from evaluation.registry import Registry
from evaluation.torch_compat import one_thread
from evaluation.witnesses.base import Evidence, TripToJudge, Witness, WitnessError

__all__ = [
    "DEFAULT_WITNESSES",
    "REFERENCE_EDITOR_WITNESSES",
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

#: In display order.
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
#: Returns the class of a witness (label, licence, requirements) without loading torch.
witness_class = WITNESSES.find
#: Returns a witness; its weights are loaded on first use.
load_witness = WITNESSES.load
#: The witnesses that run when a trip is scored. The judge runs separately, because it costs money.
DEFAULT_WITNESSES = tuple(name for name in WITNESSES if name != "judge")
#: The witnesses that run on reference editors. What these editors do is known in advance, so only
#: witnesses that are fast or can end a chain are run.
REFERENCE_EDITOR_WITNESSES = ("parsing", "geometry", "hue", "identity")


def witness_label(name: str) -> str:
    """Return the label of a witness; its name if it is no longer registered."""
    return witness_class(name).label if name in WITNESSES else name


class Panel:
    """The witnesses that can run here; `not_run` maps all others to the reasons."""

    def __init__(
        self, names: Iterable[str] | None = None, metrics: Mapping[str, Metric] | None = None
    ) -> None:
        """Create the witnesses, which share the networks of `metrics`."""
        self.witnesses: dict[str, Witness] = {}
        self.not_run: dict[str, str] = {}
        for name in DEFAULT_WITNESSES if names is None else names:
            witness = load_witness(name)
            if reasons := witness.missing():
                self.not_run[name] = "; ".join(reasons)
            else:
                witness.share(metrics or {})
                self.witnesses[name] = witness

    def restrict_to(self, names: Collection[str]) -> None:
        """Drop all witnesses except these."""
        self.witnesses = {n: witness for n, witness in self.witnesses.items() if n in names}

    def evidence(self, trip: TripToJudge) -> list[dict[str, Any]]:
        """Return the evidence of all witnesses on the trip; undecided witnesses give none."""
        with one_thread():
            evidence = [witness.examine(trip) for witness in self.witnesses.values()]
        return [item.to_dict() for item in evidence if item]

    def provenance(self) -> dict[str, Any]:
        """Return versions and weight hashes of the witnesses."""
        return {
            name: {"version": witness.version, "weights_sha256": witness.weights_sha256}
            for name, witness in self.witnesses.items()
        }
