"""Verify a bundle: compute each number again and compare it with the one that the bundle states.

A value that cannot be checked is reported with the reason. Numbers that depend on the processor may
differ slightly (see the tolerances in `evaluation.bundle.checks`); all others must be equal.

A "line" is a record of the bundle or a trip in a record. A witness is an automatic check of whether
an edit was made, such as an object detector. The judge is a witness that queries a language model.
A standing is the run's result by one metric at one threshold, for one group of cases.
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
from evaluation.bundle.write import as_json, measured_chains
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
NOT_QUERIED = (
    "judge models are not queried again: their answers are stored where the run was scored"
)
#: The valid answers to each kind of vote.
ANSWERS = {"pair": (-1, 0, 1), "usable": (0, 1)}
#: The measures of a trip that do not depend on its edit.
BASIC_MEASURES = ("reframed", "step", "from_source")


#: The accepted error (RMSE) if our degradation operators run again: machines round differently.
OPERATOR_TOLERANCE = 0.004


def degradation_check(
    line: str, pair: EditPair, number: int, before: EncodedImage, stated: EncodedImage
) -> Check:
    """Check that our degradation operator reproduces the stated image."""
    error = distance(degraded(pair.degradation, before, number), stated)
    state = EQUAL if error <= OPERATOR_TOLERANCE else DIFFERENT
    return Check(line, f"operator {pair.degradation}", state, f"RMSE {error:.5f}")


def verify(bundle: Bundle) -> Iterator[Check]:
    """Yield every check of this bundle, in the order of its lines."""
    yield from Verification(bundle).checks()


class Verification:
    """The verification of one bundle, which can be resumed between chains."""

    def __init__(self, bundle: Bundle, finished: Collection[str] = ()) -> None:
        """Prepare all checks except those of the chains whose names are in `finished`."""
        self.finished, self.in_chains = list(finished), False
        self.bundle, self.document, self.suite = bundle, bundle.document, bundle.suite
        self.arm = bundle.arm
        self.names = {id(row): name for name, row in bundles.lines(bundle.raw)}
        metrics, versions = bundle.scored_metrics, self.document.run.metrics
        no_reference = [
            name
            for name in no_reference_metrics()
            if "missing" not in versions.get(name, "missing")
        ]
        self.scorer = Scorer(name for name in (*metrics, *no_reference) if name in METRICS)
        self.unable = {name: reason for name in metrics if (reason := self._unable(name))}
        #: Why each no-reference metric of the run (which rates an image without its source) cannot
        #: run here; "" if it can.
        self.no_reference = {name: self._unable(name) for name in no_reference}
        self.able = [name for name in metrics if name not in self.unable]
        self.able += [name for name, reason in self.no_reference.items() if not reason]
        self.secrets = self.document.run.secrets
        #: The calibrations (the scale of each metric on each image) computed here, by image and
        #: metric; empty until the sources are checked.
        self.calibrations: dict[str, dict[str, Calibration | None]] = {}
        self.store = BundleScores(bundle, self.scorer)
        #: The witnesses of the run that cannot run here, with the reasons.
        self.unable_witnesses = self._unable_witnesses()
        #: Witnesses that run here and can end chains, but were not used to score the run.
        self.missing_witnesses = [
            name
            for name, witness in self.scorer.panel.witnesses.items()
            if witness.gates and name not in self._witnesses
        ]
        self.scorer.panel.restrict_to(self._witnesses.keys() - self.unable_witnesses.keys())

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

    # The head: suite, model, run, and the completeness of chains and trips.

    def _head(self) -> Iterator[Check]:
        raw, stated = self.bundle.raw, self.document.suite.definition.get("content_hash")
        content_hash = self.suite.content_hash
        for line in ("suite", "model", "run"):
            yield digest_check(line, raw[line])
        yield compared("suite", "content hash", stated, content_hash)
        if (method := self.document.run.method_version) != METHOD_VERSION:
            why = (
                f"scored by method {method[:20]}, but the method here is {METHOD_VERSION}: "
                "play and score the run again"
            )
            yield Check("run", "method version", DIFFERENT, why)
        if commitments := self.document.run.commitments:
            computed = [commitment(secret) for secret in reversed(self.secrets)]
            yield compared("run", "secret", commitments, computed)
        yield compared("bundle", "digest of all lines", self.document.digest, self.bundle.digest)
        cases = {
            (case.slug, repeat)
            for case in self.suite.cases
            for repeat in range(self.arm.repeats_of(self.suite.repeats_of(case)))
        }
        played = [(chain.case, chain.repeat) for chain in self.document.chains]
        unknown = [case for case in played if case not in cases]
        if unknown or len(set(played)) < len(played):
            name = chain_name(*(unknown or played)[0])
            why = f"{name} is not a case of the suite" if unknown else "a chain is listed twice"
            yield Check("run", "chains", DIFFERENT, why)
        else:
            count = f"{len(played)} of {len(cases)} played"
            yield Check("run", "chains", EQUAL, count)
        for chain in self.document.chains:
            numbers = [trip.number for trip in chain.trips]
            complete = [trip for trip in chain.trips if trip.forward and trip.backward]
            why = ""
            if numbers != list(range(1, min(len(numbers), self.suite.trips) + 1)):
                why = f"the trips must be numbered 1, 2, 3, ... up to {self.suite.trips} at most"
            elif chain.outcome == "completed" and len(complete) < self.suite.trips:
                why = f"completed with only {len(complete)} of {self.suite.trips} trips"
            elif chain.outcome != "lost" and any(trip.step is None for trip in complete):
                why = "a restored image was not measured"
            elif any(t.step is None and (t.scores or not t.is_empty) for t in chain.trips):
                why = "an unmeasured trip has measurements"
            if why:
                yield Check(f"chain {chain.name}", "trips", DIFFERENT, why)

    # Images and their measures.

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
            computed = (
                self.scorer.only(self.able).calibrate(source, chain_subject(image))
                if source and image_rows
                else {}
            )
            self.calibrations[image.slug] = self.store.images[image.slug] = computed
            for raw, row in image_rows:
                line = f"calibration {row.image} by {row.metric}"
                yield digest_check(line, raw)
                calibration = computed.get(row.metric)
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
            if chain := self.store.played_trips(record):
                yield from self._seeds(record, chain.pair)
                yield from self._edits(record, chain)
                yield from self._trips(record, chain)
                self.finished.append(record.name)

    def _seeds(self, chain: ChainRecord, pair: EditPair) -> Iterator[Check]:
        """Check that the seeds that were sent are derived from one of the run's secrets."""
        mode = self.arm.seeds
        without_call = {FORWARD} if pair.degradation else set()
        derived = [chain_seeds(secret, chain.case, chain.repeat, mode) for secret in self.secrets]
        for trip in chain.trips:
            line = f"{chain.name}, trip {trip.number}"
            for name, edit in trip.edits:
                if name in without_call:
                    continue  # our own operator makes this edit, see `degradation_check`
                if edit and edit.seed is None and mode != "none":
                    yield Check(line, f"{name} seed", NOT_CHECKED, "the bundle does not state it")
                elif edit:
                    seeds = [seed(trip.number, name) for seed in derived]
                    seed_here = edit.seed if edit.seed in seeds else seeds[0]
                    yield compared(line, f"{name} seed", edit.seed, seed_here, (0.0, 0.0))

    def _edits(self, record: ChainRecord, chain: PlayedTrips) -> Iterator[Check]:
        """Check prompts and images; cut the chain before its first trip with an invalid image."""
        before = self.store.source_of(chain)
        is_valid, valid_trips = before is not None, 0
        reworded = self.arm.reworded(chain.pair)
        for trip in record.trips:
            line = f"{record.name}, trip {trip.number}"
            steps = reworded.trip(trip.number).steps
            if trip.backward:  # a trip with a restored image has every step
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
                    yield degradation_check(
                        f"{line}, {name}", chain.pair, trip.number, before, restored
                    )
                is_valid = is_valid and restored is not None
            valid_trips += is_valid
            before = restored
        chain.played = min(chain.played, valid_trips)

    def _trips(self, record: ChainRecord, chain: PlayedTrips) -> Iterator[Check]:
        """Recompute and compare the trips; report trips without images as not checked."""
        source = self.store.source_of(chain)
        computed: ChainScores | None = None
        # A chain without a restored image may still have no-reference scores of its source.
        if source and (chain.played or record.quality):
            computed = self.store.rescore(chain, self.scorer.only(self.able))
        for index, trip in enumerate(record.trips):
            line = f"{record.name}, trip {trip.number}"
            computed_here = computed if index < chain.played else None
            if computed_here:
                yield from self._measures(line, trip, computed_here.trips[index], chain.pair)
            elif trip.step is not None:
                yield Check(line, "change seen", NOT_CHECKED, self._why(None, None))
            for metric, stated in sorted(trip.scores.items()):
                distances = computed_here.distances.get(metric) if computed_here else None
                if distances is None:
                    why = self._why(metric, source if computed_here else None)
                    yield Check(line, metric, NOT_CHECKED, why)
                else:
                    tolerance = self._tolerance(metric)
                    yield compared(line, metric, stated, distances[index], tolerance)
        quality = computed.quality if computed else {}
        yield from quality_checks(record, quality, self.no_reference, self._why(None, None))

    def _measures(
        self, line: str, trip: TripRecord, computed: TripMeasures, pair: EditPair
    ) -> Iterator[Check]:
        """Compare the stated measures of a trip with recomputed ones."""
        stated, here = (self._comparable(measures, pair) for measures in (trip, computed))
        of_change = REGISTERED if pair.change == "local" else CLASSICAL
        for what, names, tolerance in (
            ("basic measures", BASIC_MEASURES, CLASSICAL),
            ("change measure", ["change_measure"], of_change),
            ("change seen", ["change_seen"], EXACT),
            ("steps' measures", ["steps"], WITNESSED),
            ("evidence", ["evidence"], WITNESSED),
            ("largest loss", self.store.scored_fields, self._network_tolerance),
        ):
            both = [{name: row[name] for name in names if name in row} for row in (stated, here)]
            if any(both):
                yield compared(line, what, both[0], both[1], tolerance)
        for name in {
            str(row.get("witness")) for row in trip.evidence
        } & self.unable_witnesses.keys():
            why = self.unable_witnesses[name]
            yield Check(line, f"evidence by {name}", NOT_CHECKED, why)

    def _comparable(self, measures: TripMeasures, pair: EditPair) -> dict[str, Any]:
        """Return a trip's non-empty fields that can be recomputed and compared here."""
        fields = measures.model_dump(include=set(MEASURES))
        fields["change_measure"].pop("identity_drift", None)  # see `drift_checks`
        if pair.change == "global":  # depends on the whole run, see `drift_checks`
            del fields["change_seen"]
        fields["evidence"] = [
            row for row in fields["evidence"] if row.get("witness") not in self.unable_witnesses
        ]
        if "detector" not in self.scorer.panel.witnesses:
            counts = ("wanted", "counted")
            fields["steps"] = [
                {name: value for name, value in row.items() if name not in counts}
                for row in fields["steps"]
            ]
        if self._network_tolerance is HALF:  # rounding may decide which part lost most
            fields = without_names(fields)
        return {name: value for name, value in fields.items() if value not in ([], {})}

    def _orders(self) -> Iterator[Check]:
        """Check the comparisons of edit pairs that make the same edits in different orders."""
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
            yield Check("standings", "rows", DIFFERENT, "a standing is listed twice")
        expected: set[tuple[str, float, str]] = set()
        for metric in self.bundle.scored_metrics:
            try:
                chains = self._measured(metric)
                if chains is None:
                    yield Check(
                        "run",
                        metric,
                        EQUAL,
                        "this metric did not score every chain, so it has no standings",
                    )
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
                bundles.standing_name(*key),
                "numbers",
                DIFFERENT,
                "the scores give no such standing",
            )

    def _measured(self, metric: str) -> list[tuple[ChainRecord, MeasuredChain]] | None:
        calibrations = {r.image: r for r in self.document.calibrations if r.metric == metric}
        return measured_chains(self.suite, metric, calibrations, self.document.chains)

    def _standing(
        self, key: tuple[str, float, str], row: StandingRecord | None, computed: StandingRecord
    ) -> Check:
        line = bundles.standing_name(*key)
        if row is None:
            return Check(line, "numbers", DIFFERENT, "this standing is not in the bundle")
        return compared(line, "numbers", row.model_dump(), as_json(computed.model_dump()))

    # The metrics and witnesses that can run here.

    def _unable(self, name: str) -> str:
        """Return why this metric's scores cannot be computed here; "" if they can."""
        stated = self.document.run.metrics[name]
        if name not in METRICS:
            return "this metric is unknown here"
        if name in self.scorer.not_run:
            return self.scorer.not_run[name]
        here = self.scorer.metrics[name]
        if here.version != stated.get("version"):
            return (
                f"scored by version {stated.get('version')}, but {here.version} is installed here"
            )
        if (here.weights_sha256 or "") != (stated.get("weights_sha256") or ""):
            return "scored with different weights"
        return ""

    @property
    def _witnesses(self) -> dict[str, Any]:
        """The witnesses that were used to score the run, with their versions."""
        scoring = self.document.run.provenance.get("scoring")
        witnesses = scoring.get("witnesses") if isinstance(scoring, dict) else None
        return witnesses if isinstance(witnesses, dict) else {}

    def _unable_witnesses(self) -> dict[str, str]:
        """Return the witnesses of the run that cannot run here, with the reasons."""
        panel, here = self.scorer.panel, self.scorer.panel.provenance()
        return {
            name: panel.not_run.get(name, "the version here is different")
            for name, version in self._witnesses.items()
            if here.get(name) != version
        } | {"judge": NOT_QUERIED}

    def _why(self, metric: str | None, source: EncodedImage | None) -> str:
        if source is None:
            return "its images cannot be used" if self.document.images else NO_IMAGES
        if metric in self.unable:
            return self.unable[metric or ""]
        return self.scorer.size_problems(source.size).get(
            metric or "", "it is not among the run's metrics"
        )

    def _tolerance(self, metric: str) -> tuple[float, float]:
        return self._network_tolerance if self.scorer.uses_network(metric) else CLASSICAL

    @cached_property
    def _network_tolerance(self) -> tuple[float, float]:
        """The tolerance of scores by networks.

        It is larger if the run or this machine used half precision.
        """
        scoring = self.document.run.provenance.get("scoring")
        devices = str(scoring.get("devices", "") if isinstance(scoring, dict) else "")
        here = (row["precision"] for row in self.scorer.provenance()["metrics"].values())
        return HALF if "float16" in devices or "float16" in here else NETWORK


# The whole run: stops, votes, drift.


def stop_checks(bundle: Bundle) -> Iterator[Check]:
    """Check chains that were stopped early: a converged chain must repeat its images.

    Other outcomes need no check of their own: a wrong outcome makes the recomputed standings differ
    from the stated ones.
    """
    stop_after = bundle.document.run.stop_after
    for chain in bundle.document.chains:
        if chain.outcome not in STOPPED:
            continue
        line = f"chain {chain.name}"
        yield compared(line, "run stops chains", True, stop_after > 0)
        if chain.outcome == CONVERGED:
            images = [
                (trip.forward.sha256, trip.backward.sha256)
                for trip in chain.trips
                if trip.forward and trip.backward
            ]
            is_complete = len(images) == len(chain.trips)
            repeats = is_complete and has_converged(images, stop_after)
            yield compared(line, "repeats itself", True, repeats)


def vote_checks(bundle: Bundle) -> Iterator[Check]:
    """Check that each vote has a valid answer and is about a restored image of the bundle."""
    restored = {
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
        present = (vote.case, vote.repeat, vote.trip) in restored
        yield compared(line, "restored image is present", True, present)
        valid = vote.answer in ANSWERS[vote.kind] and (vote.kind == "pair") == bool(vote.against)
        yield compared(line, "answer is valid", True, valid)


def drift_checks(bundle: Bundle) -> Iterator[Check]:
    """Check the verdicts on global edits, which change the whole image.

    They depend on the model's drift: how much the model changes an image if it is asked for no
    change (by an "identity pair").
    """
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
    computed: Mapping[str, Sequence[float | None]],
    reasons: Mapping[str, str],
    no_images: str,
) -> Iterator[Check]:
    """Yield a check for each no-reference metric of a chain.

    `reasons` gives for each of these metrics that scored the run why it cannot run here, or "" if
    it can. `no_images` is the reason to report if images are missing.
    """
    restored = sum(trip.step is not None for trip in chain.trips)
    for name in sorted(chain.quality.keys() | computed.keys()):
        line, what = f"chain {chain.name}", f"no-reference quality by {name}"
        values = computed.get(name)
        if name not in reasons:
            yield Check(line, what, NOT_CHECKED, NOT_QUERIED if name == WORN else IMPORTED)
        elif reasons[name] or values is None or len(values) <= restored:
            yield Check(line, what, NOT_CHECKED, reasons[name] or no_images)
        else:
            yield compared(line, what, chain.quality.get(name), list(values), QUALITY)


def without_names(measures: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trip's measures without the names of what lost most.

    `because` (a part of the headline metric) and `window` (an area of the image) are replaced by
    whether they are valid. If two parts or areas lost about the same, it depends on the processor
    which of them is named.
    """
    fields = dict(measures)
    if "because" in fields:
        fields["because"] = fields["because"] in ("", *headline_parts())
    if "window" in fields:
        window = fields["window"] or (0, 0, 1, 1)
        fields["window"] = len(window) == 4 and all(0 <= side <= 1 for side in window)
    return fields
