"""The headline: how much of the image is kept, by whichever of its parts kept least."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from evaluation.metrics.base import Combined, CombinedMetric, Found, LossWords, Metric
from evaluation.metrics.colour import Colour
from evaluation.metrics.identity import Identity
from evaluation.metrics.lpips import Lpips
from evaluation.metrics.place import Place

# The whole, the worst place, the colours, the face. Of equals the first is named.
PARTS: tuple[type[Metric], ...] = (Lpips, Place, Colour, Identity)
#: By part, how pages speak of its loss.
LOST: dict[str, LossWords] = {part.name: part.lost for part in PARTS if part.lost}
# Not every machine has it, and few images have a face.
OPTIONAL = Identity.name


def _version(parts: Iterable[type[Metric]]) -> str:
    """Names the parts, and differs when one of them has another version."""
    parts = list(parts)
    versions = " ".join(f"{part.name} {part.version}" for part in parts)
    names = "+".join(part.name for part in parts)
    return f"1-{names}-{sha256(versions.encode()).hexdigest()[:6]}"


class WholePicture(CombinedMetric):
    """1 - the smallest of what its parts say is kept, trip by trip.

    `made_of` names the parts that can run here; the version tells which they were.
    """

    name, label, version = "picture", "Picture", _version(PARTS)
    looks_at = "whatever is lost first"
    higher_is_better = True
    blank = 1.0
    parts = tuple(part.name for part in PARTS)
    references = ("blank",)
    smallest = max(part.smallest for part in PARTS)

    def __init__(self, made_of: Collection[str] = parts) -> None:
        self._made_of = [part() for part in PARTS if part.name in made_of]
        self.version = _version(type(part) for part in self._made_of)

    def with_parts(self, available: Collection[str]) -> WholePicture:
        return WholePicture(available)

    def combine(self, found: Found) -> Combined:
        """The smallest retention of the parts, and which part that is."""
        parts = [type(part) for part in self._made_of if part.name in found.distances]
        least = least_kept({part.name: found.retention(part) for part in parts})
        distances = [max(0.0, 1 - trip.kept) for trip in least]
        return Combined(distances, {"because": [trip.because for trip in least]})

    @property
    def weights_sha256(self) -> str | None:
        """One hash of all its parts' weights; None while some are missing."""
        hashes = [part.weights_sha256 or "" for part in self._made_of]
        return None if self.missing() else sha256(" ".join(hashes).encode()).hexdigest()

    def missing(self) -> list[str]:
        """What its parts lack: all but the face, which is left out where it cannot run."""
        needed = [part() for part in PARTS if part.name != OPTIONAL]
        found = [reason for part in needed for reason in part.missing()]
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Least:
    """What one trip kept of the image, and the metric that says so."""

    kept: float
    because: str


def least_kept(kept: Mapping[str, Sequence[float]]) -> list[Least]:
    """Trip by trip the smallest of the parts' retentions (name: one per trip)."""
    names = [name for name in WholePicture.parts if name in kept]
    trips = zip(*(kept[name] for name in names), strict=True)
    return [
        Least(*min(zip(trip, names, strict=True), key=lambda found: found[0])) for trip in trips
    ]
