"""All witnesses that can look here, heard on one trip."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from evaluation.metrics.base import Metric
from evaluation.torch_compat import one_thread
from evaluation.witnesses import LOOKING, TripToJudge, Witness, load_witness


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


@dataclass(frozen=True)
class Verdict:
    """What the witnesses say together of one trip; None where none of them could tell."""

    made: bool | None
    undone: bool | None

    @classmethod
    def of(cls, evidence: Iterable[Mapping[str, Any]], *, gating: bool = False) -> Self:
        """By all, or by those alone whose word ends a chain.

        One that sees the thing is enough for it to be there, in the edited picture and in
        the one that came back. Of a trip of many steps each edit must have been made.
        """
        heard = [one for one in evidence if one["gates"] or not gating]
        steps: dict[int, list[bool]] = {}
        for one in heard:
            if one["made"] is not None:
                steps.setdefault(one.get("step", 0), []).append(one["made"])
        undone = [one["undone"] for one in heard if one["undone"] is not None]
        made = all(any(said) for said in steps.values()) if steps else None
        return cls(made, all(undone) if undone else None)


def heard_by_category(
    trips: Iterable[tuple[str, Sequence[Mapping[str, Any]]]],
) -> dict[str, dict[str, dict[str, list[int]]]]:
    """By category and witness: in how many trips it said so, of how many in which it could tell.

    Of each half ("made", "undone") and of what nobody asked to change ("kept").
    """
    found: dict[str, dict[str, dict[str, list[int]]]] = {}
    for category, evidence in trips:
        for one in evidence:
            for what in ("made", "undone", "kept"):
                if one.get(what) is None:
                    continue
                counts = found.setdefault(category, {}).setdefault(one["witness"], {})
                said = counts.setdefault(what, [0, 0])
                said[0] += bool(one[what])
                said[1] += 1
    return found
