"""All witnesses that can look here, heard on one trip."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from evaluation.witnesses import WITNESSES, TripToJudge, Witness, load_witness


class Panel:
    """The witnesses that can look here; `not_run` says why the others cannot."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self.witnesses: dict[str, Witness] = {}
        self.not_run: dict[str, str] = {}
        for name in WITNESSES if names is None else names:
            witness = load_witness(name)
            if reasons := witness.missing():
                self.not_run[name] = "; ".join(reasons)
            else:
                self.witnesses[name] = witness

    def keep(self, names: Collection[str]) -> None:
        """Hear these alone."""
        self.witnesses = {n: witness for n, witness in self.witnesses.items() if n in names}

    def hear(self, trip: TripToJudge) -> list[dict[str, Any]]:
        """What each of them says that knows something of it."""
        found = (witness.look(trip) for witness in self.witnesses.values())
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
        the one that came back.
        """
        heard = [one for one in evidence if one["gates"] or not gating]
        made, undone = (
            [one[half] for one in heard if one[half] is not None] for half in ("made", "undone")
        )
        return cls(any(made) if made else None, all(undone) if undone else None)
