"""Is a bundle right? Every number that it allows is made again and laid beside the stated one.

Nothing is taken on trust but what cannot be checked, and that says why. Scores of
networks may differ in the last digits between machines; everything else may not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.bundle import format as bundles
from evaluation.bundle import recomputing
from evaluation.bundle.format import Bundle, ChainLine, HalfRow, SourceLine, TripLine
from evaluation.content.sources import pixel_sha256
from evaluation.content.suites import EditPair
from evaluation.images import ImageError, Picture, fit, is_reframed
from evaluation.measuring import change_seen as seen
from evaluation.measuring.cheating import mean_square
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import METRICS
from evaluation.metrics.networks.base import NetworkMetric
from evaluation.metrics.worst_window import worst_place
from evaluation.statistics.dynamics import rmse
from evaluation.statistics.standings import chain_numbers

EQUAL, DIFFERENT, NOT_CHECKED = "equal", "different", "not checked"
NO_PICTURES = "no pictures in the bundle"
#: How far a number may be off: of its size, and at all.
EXACT = (1e-9, 1e-9)
CLASSICAL = (1e-6, 1e-9)
NETWORK = (1e-3, 1e-5)
# Registration climbs a hill step by step, and ends a little elsewhere on another processor.
REGISTERED = (1e-2, 1e-3)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: in which line, what, and how it came out."""

    line: str
    what: str
    verdict: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.verdict:11}  {self.line}, {self.what}{detail}"


def verdict(checks: Mapping[str, int]) -> bool | None:
    """From how many checks came out how: True = all equal, None = some could not be made."""
    if checks.get(DIFFERENT):
        return False
    return None if checks.get(NOT_CHECKED) else True


def verify(bundle: Bundle) -> Iterator[Check]:
    """Every check of this bundle, in the order of its lines."""
    yield from Verification(bundle).checks()


class Verification:
    def __init__(self, bundle: Bundle) -> None:
        self.bundle, self.document, self.suite = bundle, bundle.document, bundle.suite
        self.names = {id(row): name for name, row in bundles.lines(bundle.raw)}
        pinned = recomputing.metrics_run(bundle)
        self.scorer = Scorer([name for name in pinned if name in METRICS])
        self.unable = {name: reason for name in pinned if (reason := self._unable(name))}
        self.able = [name for name in pinned if name not in self.unable]

    @property
    def steps(self) -> int:
        """How many lines there are to check."""
        return len(self.names)

    def checks(self) -> Iterator[Check]:
        yield from self._head()
        yield from self._sources()
        yield from self._chains()
        yield from self._drift()
        yield from self._statistics()

    # The head: suite, model, run, and that no line is missing.

    def _head(self) -> Iterator[Check]:
        raw, stated = self.bundle.raw, self.document.suite.definition.get("content_hash")
        found = self.suite.content_hash
        for line in ("suite", "model", "run"):
            yield self._digest(line, raw[line])
        yield _compared("suite", "content hash", stated, found)
        yield _compared("bundle", "digest of all lines", self.document.digest, self.bundle.digest)
        cases = {
            (case.slug, repeat) for case in self.suite.cases for repeat in range(self.suite.repeats)
        }
        played = [(chain.case, chain.repeat) for chain in self.document.chains]
        odd = [case for case in played if case not in cases]
        if odd or len(set(played)) < len(played):
            name = bundles.chain_name(*(odd or played)[0])
            why = f"{name} is not a case of the suite" if odd else "a chain stands here twice"
            yield Check("run", "chains", DIFFERENT, why)
        else:
            count = f"{len(played)} of {len(cases)} played"
            yield Check("run", "chains", EQUAL, count)

    def _digest(self, line: str, row: Mapping[str, Any]) -> Check:
        if row["digest"] == bundles.digest(row):
            return Check(line, "digest", EQUAL)
        return Check(line, "digest", DIFFERENT, "the line was altered after it was written")

    # Pictures and what is measured on them.

    def _sources(self) -> Iterator[Check]:
        rows = {row.slug: row for row in self.document.sources}
        for raw in self.bundle.raw["sources"]:
            yield self._digest(f"source {raw['slug']}", raw)
        calibrations = list(
            zip(self.bundle.raw["calibrations"], self.document.calibrations, strict=True)
        )
        for picture in self.suite.pictures:
            line = f"source {picture.slug}"
            source, checks = self._file(line, rows.get(picture.slug))
            yield from checks
            if source is not None:
                pixels = pixel_sha256(source.image)
                yield _compared(line, "pixels", picture.sha256, pixels)
            own = [(raw, row) for raw, row in calibrations if row.picture == picture.slug]
            made = self.scorer.only(self.able).calibrate(source) if source and own else {}
            for raw, row in own:
                line = f"calibration {row.picture} by {row.metric}"
                yield self._digest(line, raw)
                found = made.get(row.metric)
                stated = {"blank": row.blank, "ladder": row.ladder}
                if found is None:
                    yield Check(line, "numbers", NOT_CHECKED, self._why(row.metric, source))
                    continue
                ladder = {str(q): d for q, d in found.ladder.items()}
                here = {"blank": found.blank, "ladder": ladder}
                yield _compared(line, "numbers", stated, here, self._tolerance(row.metric))
        for _, row in calibrations:
            if row.picture not in self.suite.picture_by_slug:
                yield Check(f"calibration {row.picture}", "picture", DIFFERENT, "not in the suite")

    def _file(
        self, line: str, row: SourceLine | HalfRow | None
    ) -> tuple[Picture | None, list[Check]]:
        """The picture where it is here and sound, and what was checked of its file."""
        if row is None:
            return None, [Check(line, "picture", NOT_CHECKED, "the bundle does not name it")]
        data = self.bundle.picture(row.sha256)
        if data is None and not self.document.pictures:
            return None, [Check(line, "picture", NOT_CHECKED, NO_PICTURES)]
        if data is None:
            why = f"{bundles.picture_name(row.sha256, row.mime)} is not in the bundle"
            return None, [Check(line, "picture", DIFFERENT, why)]
        hashed = _compared(line, "hash", row.sha256, hashlib.sha256(data).hexdigest())
        if hashed.verdict == DIFFERENT:
            return None, [hashed]
        try:
            picture = Picture.from_bytes(data)
        except ImageError as error:
            return None, [hashed, Check(line, "picture", DIFFERENT, str(error))]
        stated = [row.mime, row.width, row.height, row.bytes]
        found = [picture.mime, picture.width, picture.height, len(data)]
        return picture, [hashed, _compared(line, "type and size", stated, found)]

    def _chains(self) -> Iterator[Check]:
        cases = {case.slug: case for case in self.suite.cases}
        sources = {row.slug: row for row in self.document.sources}
        for raw, chain in zip(self.bundle.raw["chains"], self.document.chains, strict=True):
            yield self._digest(f"chain {chain.name}", raw)
            for own, trip in zip(raw["trips"], chain.trips, strict=True):
                yield self._digest(f"{chain.name}, trip {trip.number}", own)
            case = cases.get(chain.case)
            if case is None:
                continue
            pair = self.suite.pair_by_slug[case.pair]
            source, _ = self._file(chain.name, sources.get(case.picture))
            yield from self._trips(chain, source, pair)

    def _trips(self, chain: ChainLine, source: Picture | None, pair: EditPair) -> Iterator[Check]:
        before, whole = source, source is not None
        scored: list[tuple[TripLine, Picture]] = []
        for trip in chain.trips:
            line = f"{chain.name}, trip {trip.number}"
            halves: list[Picture | None] = []
            for what, half, prompt in (
                ("forward", trip.forward, pair.forward),
                ("backward", trip.backward, pair.backward),
            ):
                if half is None:
                    halves.append(None)
                    continue
                yield _compared(line, f"{what} prompt", half.prompt, prompt)
                picture, checks = self._file(f"{line}, {what}", half)
                yield from checks
                halves.append(picture)
            edited, restored = halves
            if source and before and edited and restored and trip.step is not None:
                yield from self._measures(line, trip, source, before, edited, restored, pair)
            elif trip.step is not None:
                yield Check(line, "change seen", NOT_CHECKED, self._why(None, None))
            if restored and whole:
                scored.append((trip, restored))
            else:
                whole = False
            before = restored
        yield from self._scores(chain, source, scored)

    def _measures(
        self,
        line: str,
        trip: TripLine,
        source: Picture,
        before: Picture,
        edited: Picture,
        restored: Picture,
        pair: EditPair,
    ) -> Iterator[Check]:
        original, back = _values(source, source.size), _values(restored, source.size)
        stated = {
            "reframed": trip.reframed,
            "step": trip.step,
            "from_source": trip.from_source,
            "worst_window": trip.worst_window,
        }
        found = {
            "reframed": is_reframed(restored.size, source.size),
            "step": rmse(_values(before, source.size), back),
            "from_source": rmse(original, back),
            "worst_window": list(worst_place(original, back)),
        }
        yield _compared(line, "what the trip did", stated, found, CLASSICAL)
        judged = seen.change_seen(before.image, edited.image, pair)
        measure = {
            **judged.measure,
            "to_input": mean_square(before, edited),
            "back_to_input": mean_square(edited, restored),
        }
        if pair.change == "none":
            measure["moved"] = seen.drift(before.image, edited.image)
        own = {k: v for k, v in trip.change_measure.items() if k != "identity_drift"}
        tolerance = REGISTERED if pair.change == "local" else CLASSICAL
        yield _compared(line, "change measure", own, measure, tolerance)
        if pair.change != "global":  # those are judged by the whole run, see below
            yield _compared(line, "change seen", trip.change_seen, judged.seen)

    def _scores(
        self, chain: ChainLine, source: Picture | None, scored: list[tuple[TripLine, Picture]]
    ) -> Iterator[Check]:
        """Each score of each trip; those without their pictures say so."""
        pictures = [picture for _, picture in scored]
        made = self.scorer.only(self.able).score(source, pictures) if source and pictures else {}
        place = {trip.number: index for index, (trip, _) in enumerate(scored)}
        for trip in chain.trips:
            for metric, stated in sorted(trip.scores.items()):
                line = f"{chain.name}, trip {trip.number}"
                distances = made.get(metric)
                if distances is None or trip.number not in place:
                    here = source if trip.number in place else None
                    yield Check(line, metric, NOT_CHECKED, self._why(metric, here))
                    continue
                found = distances[place[trip.number]]
                yield _compared(line, metric, stated, found, self._tolerance(metric))

    def _drift(self) -> Iterator[Check]:
        """Global edits are seen where they move more than the model's own drift."""
        pairs = {case.slug: self.suite.pair_by_slug[case.pair] for case in self.suite.cases}

        def trips(change: str) -> Iterator[tuple[str, TripLine]]:
            for chain in self.document.chains:
                if chain.case in pairs and pairs[chain.case].change == change:
                    for trip in chain.trips:
                        if trip.step is not None:
                            yield f"{chain.name}, trip {trip.number}", trip

        still = [trip.change_measure.get("moved") for _, trip in trips("none")]
        moved = [value for value in still if value is not None]
        drift = math.fsum(moved) / len(moved) if moved else None
        for line, trip in trips("global"):
            change = trip.change_measure.get("moved")
            judged = drift is not None and change is not None
            found = change > seen.DRIFTS * drift if change is not None and drift else None
            yield _compared(line, "change seen", trip.change_seen, found if judged else None)

    # From scores to standings.

    def _statistics(self) -> Iterator[Check]:
        trips = self.suite.trips
        stated = {(s.metric, s.level, s.scope): s for s in self.document.standings}
        for raw in self.bundle.raw["standings"]:
            yield self._digest(self.names[id(raw)], raw)
        if len(stated) < len(self.document.standings):
            yield Check("standings", "rows", DIFFERENT, "one stands here twice")
        expected: set[tuple[str, float, str]] = set()
        for metric in recomputing.metrics_run(self.bundle):
            try:
                chains = recomputing.measured(self.bundle, metric)
                if chains is None:
                    yield Check("run", metric, EQUAL, "it does not cover the suite: no standings")
                    continue
                for line, chain in chains:
                    own, found = line.results.get(metric), chain_numbers(chain, trips)
                    what = f"retention and events by {metric}"
                    yield _compared(f"chain {line.name}", what, own, found)
                measured = [chain for _, chain in chains]
                for key, found in recomputing.standings(metric, measured, trips):
                    expected.add(key)
                    yield self._standing(key, stated.get(key), found)
            except (KeyError, ValueError) as error:
                yield Check("run", f"statistics of {metric}", DIFFERENT, str(error))
        for key in stated.keys() - expected:
            yield Check(
                bundles.standing_name(*key), "numbers", DIFFERENT, "the scores do not give it"
            )

    def _standing(self, key: tuple[str, float, str], row: Any, found: dict[str, Any]) -> Check:
        line = bundles.standing_name(*key)
        if row is None:
            return Check(line, "numbers", DIFFERENT, "it is not in the bundle")
        own = {name: getattr(row, name) for name in found}
        return _compared(line, "numbers", own, found)

    # What can be checked here.

    def _unable(self, name: str) -> str:
        """Why this metric's scores cannot be made again here; empty when they can."""
        pinned = self.document.run.metrics[name]
        if name not in METRICS:
            return "this metric is not known here"
        if name in self.scorer.not_run:
            return self.scorer.not_run[name]
        here = self.scorer.metrics[name]
        if here.version != pinned.get("version"):
            return f"made by version {pinned.get('version')}, here is {here.version}"
        if (here.weights_sha256 or "") != (pinned.get("weights_sha256") or ""):
            return "made with other weights than those here"
        return ""

    def _why(self, metric: str | None, source: Picture | None) -> str:
        if source is None:
            return "its pictures are not sound" if self.document.pictures else NO_PICTURES
        if metric in self.unable:
            return self.unable[metric or ""]
        return self.scorer.unfit(source.size).get(metric or "", "it is not among the run's metrics")

    def _tolerance(self, metric: str) -> tuple[float, float]:
        network = isinstance(self.scorer.metrics.get(metric), NetworkMetric)
        return NETWORK if network else CLASSICAL


def _compared(
    line: str, what: str, stated: Any, found: Any, tolerance: tuple[float, float] = EXACT
) -> Check:
    """One check: equal, or where the two part first."""
    apart = _apart(stated, found, tolerance)
    return Check(line, what, DIFFERENT, apart) if apart else Check(line, what, EQUAL)


def _apart(stated: Any, found: Any, tolerance: tuple[float, float], place: str = "") -> str:
    """Where two values differ first, in words; empty when nowhere."""
    if isinstance(stated, dict) and isinstance(found, dict):
        for key in sorted(stated.keys() | found.keys(), key=str):
            inside = f"{place}.{key}" if place else str(key)
            if key not in stated or key not in found:
                return f"{inside} is {'not computed here' if key in stated else 'missing'}"
            if apart := _apart(stated[key], found[key], tolerance, inside):
                return apart
        return ""
    if isinstance(stated, list) and isinstance(found, list) and len(stated) == len(found):
        for index, (one, other) in enumerate(zip(stated, found, strict=True)):
            if apart := _apart(one, other, tolerance, f"{place}[{index}]"):
                return apart
        return ""
    relative, absolute = tolerance
    if _is_number(stated) and _is_number(found):
        if math.isclose(stated, found, rel_tol=relative, abs_tol=absolute):
            return ""
    elif type(stated) is type(found) and stated == found:
        return ""
    where = f"{place} " if place else ""
    return f"{where}states {_short(stated)}, computed {_short(found)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _values(picture: Picture, size: tuple[int, int]) -> NDArray[np.uint8]:
    return np.asarray(fit(picture.image, size))
