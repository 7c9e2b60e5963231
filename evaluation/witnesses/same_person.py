"""Whether it is still the same person when the picture is back."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from evaluation.images import fit
from evaluation.metrics.identity import Identity
from evaluation.witnesses.base import Evidence, TripToJudge, Witness

# dlib's own limit.
ANOTHER = 0.6


class SamePerson(Witness):
    """The distance of the faces of source and return; a return without a face is nobody."""

    name, label, version = "identity", "face recognition", Identity.version
    licence = "Boost; weights CC0"
    can = "whether the one face of a picture is still that of the same person"
    cannot = (
        "pictures without a face or with several; its word ends a chain as the cause "
        "“another person”, by the face distance that is part of the picture’s retention"
    )
    weights = Identity.weights
    modules = Identity.modules
    looks_with = "identity"

    def look(self, trip: TripToJudge) -> Evidence | None:
        if trip.subject.face is None or trip.returned is None:
            return None
        source, returned = (
            self.metric.view(fit(picture.image, trip.source.size), trip.subject)
            for picture in (trip.source, trip.returned)
        )
        face = self.metric.prepare(source)
        if face is None:
            return None
        other = self.metric.prepare(returned)
        distance = self.metric.blank if other is None else float(np.linalg.norm(face - other))
        said = "no face" if other is None else f"face distance {distance:.2f}"
        return Evidence(
            self.name,
            self.version,
            "the same person",
            made=None,
            undone=None,
            gates=False,
            amounts=(distance,),
            kept=distance <= ANOTHER,
            said=said,
        )

    @cached_property
    def metric(self) -> Identity:
        return Identity()
