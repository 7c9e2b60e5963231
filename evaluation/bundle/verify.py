"""Verify a bundle: compute each number and compare it with the stated one.

A value that cannot be checked is reported with the reason. Scores of networks may differ in
the last digits between machines; all other numbers must be equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from evaluation.analysis.events import CONVERGED, STOPPED
from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.standings import MeasuredChain, chain_numbers, standings
from evaluation.analysis.stopping import has_converged
from evaluation.bundle import document as bundles
from evaluation.bundle.audits import audit_checks
from evaluation.bundle.checks import (
    CLASSICAL,
    DIFFERENT,
    EQUAL,
    EXACT,
    HALF,
    NETWORK,
    NO_IMAGES,
    NOT_CHECKED,
    QUALITY,
    REGISTERED,
    WITNESSED,
    Check,
    compared,
    digest_check,
    image_checks,
)
from evaluation.bundle.document import Bundle
from evaluation.bundle.scores import BundleScores
from evaluation.bundle.write import as_json, measured
from evaluation.content.operators import degraded
from evaluation.content.shapes import FORWARD
from evaluation.content.sources import pixel_sha256
from evaluation.content.suites import EditPair
from evaluation.images import EncodedImage
from evaluation.measuring.calibration import Calibration
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from evaluation.measuring.trip_measures import (
    compare_orders,
    distance,
    identity_drift,
    judge_global,
)
from evaluation.metrics import METRICS, headline_parts, no_reference_metrics
from evaluation.metrics.no_reference import WORN
from evaluation.play.finish import step_reader
from evaluation.play.run_scores import ChainScores
from evaluation.play.store import PlayedTrips
from evaluation.records import (
    MEASURES,
    ChainRecord,
    StandingRecord,
    TripMeasures,
    TripRecord,
    chain_name,
)
from evaluation.run_secret import chain_seeds, commitment

IMPORTED = "it was computed elsewhere and imported from a score file"
NOT_ASKED = "judges are not queried again: their answers are stored where they ran"
#: The answers that a vote of each kind can have.
ANSWERS = {"pair": (-1, 0, 1), "usable": (0, 1)}
#: The measures of a trip that do not depend on whether its edit was seen.
DONE = ("reframed", "step", "from_source")


#: The tolerance of our operators in RMSE: their sums round differently on other machines.
OPERATED = 0.004


def _made_by_us(
    line: str, pair: EditPair, number: int, before: EncodedImage, stated: EncodedImage
) -> Check:
    """Check that our operator makes the same image again."""
    apart = distance(degraded(pair.degradation, before, number), stated)
    state = EQUAL if apart <= OPERATED else DIFFERENT
    return Check(line, f"operator {pair.degradation}", state, f"RMSE {apart:.5f}")


def verify(bundle: Bundle) -> Iterator[Check]:
    """Yield every check of this bundle, in the order of its lines."""
    yield from Verification(bundle).checks()


class Verification:
    def __init__(self, bundle: Bundle, finished: Collection[str] = ()) -> None:
        """Prepare; `finished` names chains that were checked before."""
        self.finished, self.in_chains = list(finished), False
        self.bundle, self.document, self.suite = bundle, bundle.document, bundle.suite
        self.arm = bundle.arm
        self.names = {id(row): name for name, row in bundles.lines(bundle.raw)}
        pinned, pins = bundle.scored_metrics, self.document.run.metrics
        no_reference = [
            name for name in no_reference_metrics() if "missing" not in pins.get(name, "missing")
        ]
        self.scorer = Scorer(name for name in (*pinned, *no_reference) if name in METRICS)
        self.unable = {name: reason for name in pinned if (reason := self._unable(name))}
        #: By no-reference metric of the run: the reason why it cannot run here, or "".
        self.no_reference = {name: self._unable(name) for name in no_reference}
        self.able = [name for name in pinned if name not in self.unable]
        self.able += [name for name, reason in self.no_reference.items() if not reason]
        self.secrets = self.document.run.secrets
        #: The calibrations computed here, by image and metric, once the sources are checked.
        self.calibrations: dict[str, dict[str, Calibration | None]] = {}
        self.store = BundleScores(bundle, self.scorer)
        self.deaf = self._deaf()
        #: Witnesses that can run here and end chains, but did not judge the run.
        self.unheard = [
            name
            for name, witness in self.scorer.panel.witnesses.items()
            if witness.gates and name not in self._witnesses
        ]
        self.scorer.panel.keep(self._witnesses.keys() - self.deaf.keys())

    @property
    def steps(self) -> int:
        """The number of lines to check."""
        return len(self.names)

    def checks(self) -> Iterator[Check]:
        yield from self._head()
        yield from self._sources()
        self.in_chains = True
        yield from self._chains()
        self.in_chains = False
        yield from audit_checks(self.store, self.scorer, self.unable)
        yield from stop_checks(self.bundle)
        yield from vote_checks(self.bundle)
        yield from drift_checks(self.bundle)
        yield from self._orders()
        yield from self._statistics()

    # The head: suite, model, run, and that no line is missing.

    def _head(self) -> Iterator[Check]:
        raw, stated = self.bundle.raw, self.document.suite.definition.get("content_hash")
        content_hash = self.suite.content_hash
        for line in ("suite", "model", "run"):
            yield digest_check(line, raw[line])
        yield compared("suite", "content hash", stated, content_hash)
        if (method := self.document.run.method_version) != METHOD_VERSION:
            why = f"made by method {method[:20]}, here is {METHOD_VERSION}: play and score it again"
            yield Check("run", "method version", DIFFERENT, why)
        if commitments := self.document.run.commitments:
            drawn = [commitment(secret) for secret in reversed(self.secrets)]
            yield compared("run", "secret", commitments, drawn)
        yield compared("bundle", "digest of all lines", self.document.digest, self.bundle.digest)
        cases = {
            (case.slug, repeat)
            for case in self.suite.cases
            for repeat in range(self.arm.repeats_of(self.suite.repeats_of(case)))
        }
        played = [(chain.case, chain.repeat) for chain in self.document.chains]
        odd = [case for case in played if case not in cases]
        if odd or len(set(played)) < len(played):
            name = chain_name(*(odd or played)[0])
            why = f"{name} is not a case of the suite" if odd else "this chain is listed twice"
            yield Check("run", "chains", DIFFERENT, why)
        else:
            count = f"{len(played)} of {len(cases)} played"
            yield Check("run", "chains", EQUAL, count)
        for chain in self.document.chains:
            numbers = [trip.number for trip in chain.trips]
            whole = [trip for trip in chain.trips if trip.forward and trip.backward]
            why = ""
            if numbers != list(range(1, min(len(numbers), self.suite.trips) + 1)):
                why = f"they are not trips 1 to {self.suite.trips} at most, each once"
            elif chain.outcome == "completed" and len(whole) < self.suite.trips:
                why = f"completed, with {len(whole)} whole trips of {self.suite.trips}"
            elif chain.outcome != "lost" and any(trip.step is None for trip in whole):
                why = "a restored image was not measured"
            elif any(t.step is None and (t.scores or not t.is_empty) for t in chain.trips):
                why = "an unmeasured trip has measurements"
            if why:
                yield Check(f"chain {chain.name}", "trips", DIFFERENT, why)

    # Images and the measures taken on them.

    def _sources(self) -> Iterator[Check]:
        rows = {row.slug: row for row in self.document.sources}
        for raw in self.bundle.raw["sources"]:
            yield digest_check(f"source {raw['slug']}", raw)
        calibrations = list(
            zip(self.bundle.raw["calibrations"], self.document.calibrations, strict=True)
        )
        used = {case.image for case in self.suite.cases}
        for image in self.suite.images:
            if image.slug not in used and image.slug not in rows:
                continue  # an unused image of a partial suite
            line = f"source {image.slug}"
            source, checks = image_checks(self.bundle, line, rows.get(image.slug))
            yield from checks
            if source is not None:
                pixels = pixel_sha256(source.decoded)
                yield compared(line, "pixels", image.sha256, pixels)
            image_rows = [(raw, row) for raw, row in calibrations if row.image == image.slug]
            made = (
                self.scorer.only(self.able).calibrate(source, chain_subject(image))
                if source and image_rows
                else {}
            )
            self.calibrations[image.slug] = self.store.images[image.slug] = made
            for raw, row in image_rows:
                line = f"calibration {row.image} by {row.metric}"
                yield digest_check(line, raw)
                calibration = made.get(row.metric)
                stated = {"blank": row.blank, "ladder": row.ladder}
                if calibration is None:
                    yield Check(line, "numbers", NOT_CHECKED, self._why(row.metric, source))
                    continue
                ladder = {str(q): d for q, d in calibration.ladder.items()}
                here = {"blank": calibration.blank, "ladder": ladder}
                yield compared(line, "numbers", stated, here, self._tolerance(row.metric))
        for _, row in calibrations:
            if row.image not in self.suite.image_by_slug:
                yield Check(f"calibration {row.image}", "image", DIFFERENT, "not in the suite")

    def _chains(self) -> Iterator[Check]:
        for raw, record in zip(self.bundle.raw["chains"], self.document.chains, strict=True):
            if record.name in self.finished:
                continue
            yield digest_check(f"chain {record.name}", raw)
            for raw_trip, trip in zip(raw["trips"], record.trips, strict=True):
                yield digest_check(f"{record.name}, trip {trip.number}", raw_trip)
            if chain := self.store.played(record):
                yield from self._seeds(record, chain.pair)
                yield from self._edits(record, chain)
                yield from self._trips(record, chain)
                self.finished.append(record.name)

    def _seeds(self, chain: ChainRecord, pair: EditPair) -> Iterator[Check]:
        """Check that a secret of the run drew the seeds that were sent."""
        mode, ours = self.arm.seeds, {FORWARD} if pair.degradation else set()
        drawn = [chain_seeds(secret, chain.case, chain.repeat, mode) for secret in self.secrets]
        for trip in chain.trips:
            line = f"{chain.name}, trip {trip.number}"
            for name, edit in trip.edits:
                if name in ours:
                    continue  # made without a call: `_made_by_us` makes it again
                if edit and edit.seed is None and mode != "none":
                    yield Check(line, f"{name} seed", NOT_CHECKED, "the bundle does not state it")
                elif edit:
                    seeds = [seed(trip.number, name) for seed in drawn]
                    seed_here = edit.seed if edit.seed in seeds else seeds[0]
                    yield compared(line, f"{name} seed", edit.seed, seed_here, (0.0, 0.0))

    def _edits(self, record: ChainRecord, chain: PlayedTrips) -> Iterator[Check]:
        """Check prompts and images; limit the chain to the trips whose images are sound."""
        before = self.store.source_of(chain)
        is_sound, sound = before is not None, 0
        worded = self.arm.reworded(chain.pair)
        for trip in record.trips:
            line = f"{record.name}, trip {trip.number}"
            steps = worded.trip(trip.number).steps
            if trip.backward:  # the trip is whole, so it has every step
                names = [name for name, _ in trip.edits]
                yield compared(line, "steps", names, [step.name for step in steps])
            prompts = {step.name: step.prompt for step in steps}
            restored: EncodedImage | None = None
            for name, edit in trip.edits:
                restored = None
                if edit is not None:
                    yield compared(line, f"{name} prompt", edit.prompt, prompts.get(name))
                    restored, checks = image_checks(self.bundle, f"{line}, {name}", edit)
                    yield from checks
                if chain.pair.degradation and name == FORWARD and restored and before:
                    yield _made_by_us(f"{line}, {name}", chain.pair, trip.number, before, restored)
                is_sound = is_sound and restored is not None
            sound += is_sound
            before = restored
        chain.played = min(chain.played, sound)

    def _trips(self, record: ChainRecord, chain: PlayedTrips) -> Iterator[Check]:
        """Recompute and compare the trips; report those without images."""
        source = self.store.source_of(chain)
        made: ChainScores | None = None
        # A chain without a restored image may have scores of its source.
        if source and (chain.played or record.quality):
            made = self.store.scored_again(chain, self.scorer.only(self.able))
        for index, trip in enumerate(record.trips):
            line = f"{record.name}, trip {trip.number}"
            measured_here = made if index < chain.played else None
            if measured_here:
                yield from self._measures(line, trip, measured_here.trips[index], chain.pair)
            elif trip.step is not None:
                yield Check(line, "change seen", NOT_CHECKED, self._why(None, None))
            for metric, stated in sorted(trip.scores.items()):
                distances = measured_here.distances.get(metric) if measured_here else None
                if distances is None:
                    why = self._why(metric, source if measured_here else None)
                    yield Check(line, metric, NOT_CHECKED, why)
                else:
                    tolerance = self._tolerance(metric)
                    yield compared(line, metric, stated, distances[index], tolerance)
        quality = made.quality if made else {}
        yield from quality_checks(record, quality, self.no_reference, self._why(None, None))

    def _measures(
        self, line: str, trip: TripRecord, made: TripMeasures, pair: EditPair
    ) -> Iterator[Check]:
        """Compare the stated measures of a trip with recomputed ones."""
        stated, here = (self._comparable(measures, pair) for measures in (trip, made))
        of_change = REGISTERED if pair.change == "local" else CLASSICAL
        for what, names, tolerance in (
            ("what the trip did", DONE, CLASSICAL),
            ("change measure", ["change_measure"], of_change),
            ("change seen", ["change_seen"], EXACT),
            ("what each step did", ["steps"], WITNESSED),
            ("evidence", ["evidence"], WITNESSED),
            ("what is kept least", self.store.found, self._of_networks),
        ):
            both = [{name: row[name] for name in names if name in row} for row in (stated, here)]
            if any(both):
                yield compared(line, what, both[0], both[1], tolerance)
        for name in {str(row.get("witness")) for row in trip.evidence} & self.deaf.keys():
            yield Check(line, f"evidence by {name}", NOT_CHECKED, self.deaf[name])

    def _comparable(self, measures: TripMeasures, pair: EditPair) -> dict[str, Any]:
        """Return the fields of a trip that can be compared here, without empty lists."""
        fields = measures.model_dump(include=set(MEASURES))
        fields["change_measure"].pop("identity_drift", None)  # see `drift_checks`
        if pair.change == "global":  # those are judged by the whole run
            del fields["change_seen"]
        fields["evidence"] = [
            row for row in fields["evidence"] if row.get("witness") not in self.deaf
        ]
        if "detector" not in self.scorer.panel.witnesses:
            not_counted = ("wanted", "counted")
            fields["steps"] = [
                {name: value for name, value in row.items() if name not in not_counted}
                for row in fields["steps"]
            ]
        if self._of_networks is HALF:  # in a near tie either metric may be named
            fields = without_names(fields)
        return {name: value for name, value in fields.items() if value not in ([], {})}

    def _orders(self) -> Iterator[Check]:
        """Check the comparison of the images of two chain shapes."""
        stated = self.document.run.orders
        if not stated and not any(pair.against for pair in self.suite.pairs):
            return
        if not self.document.images:
            yield Check("run", "orders", NOT_CHECKED, NO_IMAGES)
            return
        rows = compare_orders(self.suite, step_reader(self.store))
        yield compared("run", "orders", stated, rows, CLASSICAL)

    # From scores to standings.

    def _statistics(self) -> Iterator[Check]:
        trips = self.suite.trips
        stated = {(s.metric, s.threshold, s.scope): s for s in self.document.standings}
        for raw in self.bundle.raw["standings"]:
            yield digest_check(self.names[id(raw)], raw)
        if len(stated) < len(self.document.standings):
            yield Check("standings", "rows", DIFFERENT, "an entry is listed twice")
        expected: set[tuple[str, float, str]] = set()
        for metric in self.bundle.scored_metrics:
            try:
                chains = self._measured(metric)
                if chains is None:
                    yield Check("run", metric, EQUAL, "it does not cover the suite: no standings")
                    continue
                for line, chain in chains:
                    what = f"retention and events by {metric}"
                    numbers = as_json(chain_numbers(chain, trips))
                    yield compared(f"chain {line.name}", what, line.results.get(metric), numbers)
                for standing, _ in standings(metric, [chain for _, chain in chains], trips):
                    key = (metric, standing.threshold, standing.scope)
                    expected.add(key)
                    yield self._standing(key, stated.get(key), standing)
            except (KeyError, ValueError) as error:
                yield Check("run", f"statistics of {metric}", DIFFERENT, str(error))
        for key in stated.keys() - expected:
            yield Check(
                bundles.standing_name(*key), "numbers", DIFFERENT, "the scores do not give it"
            )

    def _measured(self, metric: str) -> list[tuple[ChainRecord, MeasuredChain]] | None:
        calibrations = {r.image: r for r in self.document.calibrations if r.metric == metric}
        return measured(self.suite, metric, calibrations, self.document.chains)

    def _standing(
        self, key: tuple[str, float, str], row: StandingRecord | None, computed: StandingRecord
    ) -> Check:
        line = bundles.standing_name(*key)
        if row is None:
            return Check(line, "numbers", DIFFERENT, "it is not in the bundle")
        return compared(line, "numbers", row.model_dump(), as_json(computed.model_dump()))

    # The metrics and witnesses that can run here.

    def _unable(self, name: str) -> str:
        """Return why this metric's scores cannot be computed here; "" if they can."""
        pinned = self.document.run.metrics[name]
        if name not in METRICS:
            return "this metric is unknown here"
        if name in self.scorer.not_run:
            return self.scorer.not_run[name]
        here = self.scorer.metrics[name]
        if here.version != pinned.get("version"):
            return f"made by version {pinned.get('version')}, here is {here.version}"
        if (here.weights_sha256 or "") != (pinned.get("weights_sha256") or ""):
            return "computed with different weights"
        return ""

    @property
    def _witnesses(self) -> dict[str, Any]:
        """The witnesses that judged the run, with their versions."""
        scoring = self.document.run.provenance.get("scoring")
        witnesses = scoring.get("witnesses") if isinstance(scoring, dict) else None
        return witnesses if isinstance(witnesses, dict) else {}

    def _deaf(self) -> dict[str, str]:
        """Return the reason for each witness of the run that cannot run here."""
        panel, here = self.scorer.panel, self.scorer.panel.provenance()
        return {
            name: panel.not_run.get(name, "the version here is different")
            for name, version in self._witnesses.items()
            if here.get(name) != version
        } | {"judge": "judges are not queried again: their answers are stored where they ran"}

    def _why(self, metric: str | None, source: EncodedImage | None) -> str:
        if source is None:
            return "its images cannot be used" if self.document.images else NO_IMAGES
        if metric in self.unable:
            return self.unable[metric or ""]
        return self.scorer.size_problems(source.size).get(
            metric or "", "it is not among the run's metrics"
        )

    def _tolerance(self, metric: str) -> tuple[float, float]:
        return self._of_networks if self.scorer.uses_network(metric) else CLASSICAL

    @cached_property
    def _of_networks(self) -> tuple[float, float]:
        """The tolerance of networks, larger if one side used half precision."""
        scoring = self.document.run.provenance.get("scoring")
        devices = str(scoring.get("devices", "") if isinstance(scoring, dict) else "")
        here = (row["precision"] for row in self.scorer.provenance()["metrics"].values())
        return HALF if "float16" in devices or "float16" in here else NETWORK


# The whole run: stops, votes, drift.


def stop_checks(bundle: Bundle) -> Iterator[Check]:
    """Check every stopped chain: one that is stated to repeat itself must do so.

    The end of the other chains needs no check here: a standing that rests on a wrong end is not
    reproduced.
    """
    stop_after = bundle.document.run.stop_after
    for chain in bundle.document.chains:
        if chain.outcome not in STOPPED:
            continue
        line = f"chain {chain.name}"
        yield compared(line, "the run stops chains", True, stop_after > 0)
        if chain.outcome == CONVERGED:
            images = [
                (trip.forward.sha256, trip.backward.sha256)
                for trip in chain.trips
                if trip.forward and trip.backward
            ]
            whole = len(images) == len(chain.trips)
            repeats = whole and has_converged(images, stop_after)
            yield compared(line, "nothing changed any more", True, repeats)


def vote_checks(bundle: Bundle) -> Iterator[Check]:
    """Check that each vote's image is in the bundle and its answer is valid."""
    returned = {
        (chain.case, chain.repeat, trip.number)
        for chain in bundle.document.chains
        for trip in chain.trips
        if trip.backward
    }
    for number, (raw, vote) in enumerate(
        zip(bundle.raw.get("votes", ()), bundle.document.votes, strict=True), start=1
    ):
        line = f"vote {number}"
        yield digest_check(line, raw)
        there = (vote.case, vote.repeat, vote.trip) in returned
        yield compared(line, "its restored image is present", True, there)
        valid = vote.answer in ANSWERS[vote.kind] and (vote.kind == "pair") == bool(vote.against)
        yield compared(line, "an answer of its kind", True, valid)


def drift_checks(bundle: Bundle) -> Iterator[Check]:
    """Check that global edits count as seen if they exceed the model's drift."""
    suite = bundle.suite
    measured = {slug: bundle.arm.measured_pair(pair) for slug, pair in suite.pair_by_slug.items()}
    pairs = {case.slug: measured[case.pair] for case in suite.cases}

    def trips(change: str) -> Iterator[tuple[str, TripRecord]]:
        for chain in bundle.document.chains:
            if chain.case in pairs and pairs[chain.case].change == change:
                for trip in chain.trips:
                    if trip.step is not None:
                        yield f"{chain.name}, trip {trip.number}", trip

    drift = identity_drift(trip.change_measure for _, trip in trips("none"))
    for line, trip in trips("global"):
        verdict = judge_global(trip.change_measure, drift)
        yield compared(line, "change seen", trip.change_seen, verdict.seen)
        stated = trip.change_measure.get("identity_drift")
        judged_by = None if verdict.seen is None else drift
        yield compared(line, "identity drift", stated, judged_by, CLASSICAL)


def quality_checks(
    chain: ChainRecord,
    made: Mapping[str, Sequence[float | None]],
    pinned: Mapping[str, str],
    without: str,
) -> Iterator[Check]:
    """Yield a check for each no-reference metric of a chain.

    `pinned` are those that scoring ran, each with the reason why it cannot run here, or "";
    `without` is the reason why there are no images.
    """
    returned = sum(trip.step is not None for trip in chain.trips)
    for name in sorted(chain.quality.keys() | made.keys()):
        line, what = f"chain {chain.name}", f"no-reference quality by {name}"
        values = made.get(name)
        if name not in pinned:
            yield Check(line, what, NOT_CHECKED, NOT_ASKED if name == WORN else IMPORTED)
        elif pinned[name] or values is None or len(values) <= returned:
            yield Check(line, what, NOT_CHECKED, pinned[name] or without)
        else:
            yield compared(line, what, chain.quality.get(name), list(values), QUALITY)


# From scores to standings.


def without_names(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the retention fields without the names of part and window.

    Where two parts or windows lost about the same, another processor may name the other.
    """
    fields = dict(found)
    if "because" in fields:
        fields["because"] = fields["because"] in ("", *headline_parts())
    if "window" in fields:
        window = fields["window"] or (0, 0, 1, 1)
        fields["window"] = len(window) == 4 and all(0 <= side <= 1 for side in window)
    return fields
