"""Verify a bundle: compute each number and compare it with the stated one.

A value that cannot be checked is reported with the reason. Scores of networks may differ in
the last digits between machines; all other numbers must be equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

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
    HALF,
    NETWORK,
    NO_PICTURES,
    NOT_CHECKED,
    QUALITY,
    REGISTERED,
    WITNESSED,
    Check,
    compared,
    digest_check,
    picture_checks,
)
from evaluation.bundle.document import Bundle
from evaluation.bundle.write import as_json, measured
from evaluation.content.operators import degraded
from evaluation.content.shapes import FORWARD
from evaluation.content.sources import pixel_sha256
from evaluation.content.suites import Case as SuiteCase
from evaluation.content.suites import EditPair, SourcePicture
from evaluation.images import Picture
from evaluation.measuring.calibration import Calibration
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import ChainSubject, chain_subject
from evaluation.measuring.trip_measures import (
    compare_orders,
    distance,
    found_by_scoring,
    identity_drift,
    judge_global,
    measure_trip,
)
from evaluation.metrics import METRICS, no_reference_metrics
from evaluation.metrics.base import Subject
from evaluation.metrics.no_reference import WORN
from evaluation.records import ChainRecord, FileRecord, TripRecord, chain_name
from evaluation.run_secret import chain_seeds, commitment

IMPORTED = "it was made elsewhere, and came as a score file"
NOT_ASKED = "a judge is not asked again: its answers are kept where it was asked"
#: The answers that a vote of each kind can have.
ANSWERS = {"pair": (-1, 0, 1), "usable": (0, 1)}
#: A side of an image.
MOST_PIXELS = 65_536
#: The measures of a trip that do not depend on whether its edit was seen.
DONE = ("reframed", "step", "from_source")


class Scored(NamedTuple):
    """A trip whose scores can be computed again."""

    trip: TripRecord
    restored: Picture
    subject: Subject


#: The tolerance of our operators in RMSE: their sums round differently on other machines.
OPERATED = 0.004


def _made_by_us(line: str, pair: EditPair, number: int, before: Picture, stated: Picture) -> Check:
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
        #: The calibrations computed here, by picture and metric, once the sources are checked.
        self.calibrations: dict[str, dict[str, Calibration | None]] = {}
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
        yield from audit_checks(self.bundle, self.scorer, self.unable)
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
            why = f"made by method {method[:20]}, here is {METHOD_VERSION}: play and score it anew"
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
            why = f"{name} is not a case of the suite" if odd else "a chain stands here twice"
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
                why = "a trip came back and was not measured"
            elif any(t.step is None and (t.scores or not t.is_empty) for t in chain.trips):
                why = "a trip that was not measured has measures"
            if why:
                yield Check(f"chain {chain.name}", "trips", DIFFERENT, why)

    # Pictures and the measures taken on them.

    def _sources(self) -> Iterator[Check]:
        rows = {row.slug: row for row in self.document.sources}
        for raw in self.bundle.raw["sources"]:
            yield digest_check(f"source {raw['slug']}", raw)
        calibrations = list(
            zip(self.bundle.raw["calibrations"], self.document.calibrations, strict=True)
        )
        used = {case.picture for case in self.suite.cases}
        for picture in self.suite.pictures:
            if picture.slug not in used and picture.slug not in rows:
                continue  # an unused picture of a partial suite
            line = f"source {picture.slug}"
            source, checks = self._picture(line, rows.get(picture.slug))
            yield from checks
            if source is not None:
                pixels = pixel_sha256(source.image)
                yield compared(line, "pixels", picture.sha256, pixels)
            picture_rows = [(raw, row) for raw, row in calibrations if row.picture == picture.slug]
            made = (
                self.scorer.only(self.able).calibrate(source, chain_subject(picture))
                if source and picture_rows
                else {}
            )
            self.calibrations[picture.slug] = made
            for raw, row in picture_rows:
                line = f"calibration {row.picture} by {row.metric}"
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
            if row.picture not in self.suite.picture_by_slug:
                yield Check(f"calibration {row.picture}", "picture", DIFFERENT, "not in the suite")

    def _picture(self, line: str, row: FileRecord | None) -> tuple[Picture | None, list[Check]]:
        return picture_checks(self.bundle, line, row)

    def _chains(self) -> Iterator[Check]:
        cases = {case.slug: case for case in self.suite.cases}
        sources = {row.slug: row for row in self.document.sources}
        for raw, chain in zip(self.bundle.raw["chains"], self.document.chains, strict=True):
            if chain.name in self.finished:
                continue
            yield digest_check(f"chain {chain.name}", raw)
            for raw_trip, trip in zip(raw["trips"], chain.trips, strict=True):
                yield digest_check(f"{chain.name}, trip {trip.number}", raw_trip)
            case = cases.get(chain.case)
            if case is None:
                continue
            pair = self.arm.measured(self.suite.pair_by_slug[case.pair])
            source, _ = self._picture(chain.name, sources.get(case.picture))
            yield from self._seeds(chain, pair)
            about = self.suite.picture_by_slug[case.picture]
            yield from self._trips(chain, source, pair, about)
            self.finished.append(chain.name)

    def _seeds(self, chain: ChainRecord, pair: EditPair) -> Iterator[Check]:
        """Check that a secret of the run drew the seeds that were sent."""
        mode, ours = self.arm.seeds, {FORWARD} if pair.degradation else set()
        drawn = [chain_seeds(secret, chain.case, chain.repeat, mode) for secret in self.secrets]
        for trip in chain.trips:
            line = f"{chain.name}, trip {trip.number}"
            for name, half in trip.edits:
                if name in ours:
                    continue  # made without a call: `_made_by_us` makes it again
                if half and half.seed is None and mode != "none":
                    yield Check(line, f"{name} seed", NOT_CHECKED, "the bundle does not say")
                elif half:
                    seeds = [seed(trip.number, name) for seed in drawn]
                    seed_here = half.seed if half.seed in seeds else seeds[0]
                    yield compared(line, f"{name} seed", half.seed, seed_here, (0.0, 0.0))

    def _trips(
        self, chain: ChainRecord, source: Picture | None, pair: EditPair, about: SourcePicture
    ) -> Iterator[Check]:
        before, whole = source, source is not None
        chain_view = None if source is None else ChainSubject(about, source, pair)
        scored: list[Scored] = []
        worded = self.arm.worded(pair)
        for trip in chain.trips:
            line = f"{chain.name}, trip {trip.number}"
            steps = worded.trip(trip.number).steps
            made = trip.edits
            if trip.backward:  # the trip is whole, so it has every step
                names = [name for name, _ in made]
                yield compared(line, "steps", names, [step.name for step in steps])
            prompts = {step.name: step.prompt for step in steps}
            pictures: list[Picture | None] = []
            for name, half in made:
                if half is None:
                    pictures.append(None)
                    continue
                yield compared(line, f"{name} prompt", half.prompt, prompts.get(name))
                picture, checks = self._picture(f"{line}, {name}", half)
                yield from checks
                pictures.append(picture)
                if pair.degradation and name == FORWARD and picture and before:
                    yield _made_by_us(f"{line}, {name}", pair, trip.number, before, picture)
            restored = pictures[-1]
            there = [p for p in (before, *pictures) if p]
            subject = Subject()
            if chain_view and len(pictures) == len(steps):
                subject = chain_view.see(trip.number, (before, *pictures))
            if source and trip.step is not None and len(there) == len(steps) + 1:
                yield from self._measures(line, trip, source, there, pair, subject)
            elif trip.step is not None:
                yield Check(line, "change seen", NOT_CHECKED, self._why(None, None))
            if restored and whole:
                scored.append(Scored(trip, restored, subject))
            else:
                whole = False
            before = restored
        yield from self._scores(chain, source, scored)

    def _measures(
        self,
        line: str,
        trip: TripRecord,
        source: Picture,
        pictures: Sequence[Picture],
        pair: EditPair,
        subject: Subject,
    ) -> Iterator[Check]:
        before, edited, *between, restored = pictures
        made = measure_trip(
            *(source, before, edited, restored, pair, self.scorer.panel, subject),
            number=trip.number,
            between=between,
        )
        stated, computed = ({name: getattr(row, name) for name in DONE} for row in (trip, made))
        yield compared(line, "what the trip did", stated, computed, CLASSICAL)
        stated_change = {k: v for k, v in trip.change_measure.items() if k != "identity_drift"}
        tolerance = REGISTERED if pair.change == "local" else CLASSICAL
        yield compared(line, "change measure", stated_change, made.change_measure, tolerance)
        if pair.change != "global":  # those are judged by the whole run, see below
            yield compared(line, "change seen", trip.change_seen, made.change_seen)
        if trip.steps or made.steps:
            # Without the detector nothing is counted here.
            not_counted = () if "detector" in self.scorer.panel.witnesses else ("wanted", "counted")
            stated_steps, here = (
                [{k: v for k, v in row.items() if k not in not_counted} for row in rows]
                for rows in (trip.steps, made.steps)
            )
            yield compared(line, "what each step did", stated_steps, here, WITNESSED)
        if trip.damage:
            yield compared(line, "kind of damage", trip.damage, dict(made.damage), REGISTERED)
        for name in {str(row.get("witness")) for row in trip.evidence} & self.deaf.keys():
            yield Check(line, f"evidence by {name}", NOT_CHECKED, self.deaf[name])
        heard = [row for row in trip.evidence if row.get("witness") not in self.deaf]
        if heard or made.evidence:
            yield compared(line, "evidence", heard, list(made.evidence), WITNESSED)

    def _scores(
        self,
        chain: ChainRecord,
        source: Picture | None,
        scored: list[Scored],
    ) -> Iterator[Check]:
        """Check each score of each trip; report those without images."""
        made: dict[str, list[float] | None] = {}
        quality: dict[str, list[float | None]] = {}
        if (
            source and not scored and chain.quality
        ):  # no trip was restored, but the source was scored
            quality = self.scorer.only(self.able).score(source, []).quality
        if source and scored:
            scores = self.scorer.only(self.able).score(
                source,
                [entry.restored for entry in scored],
                scored[-1].subject,
                footprints=[entry.subject.footprint for entry in scored],
            )
            made, quality = scores.distances, scores.quality
            for index, trip in enumerate(entry.trip for entry in scored):
                least = found_by_scoring(scores, index)
                stated_least = {name: getattr(trip, name) for name in least}
                if self._of_networks is HALF:  # in a near tie either metric may be named
                    stated_least, least = (
                        without_names(fields) for fields in (stated_least, least)
                    )
                line = f"{chain.name}, trip {trip.number}"
                yield compared(line, "what is kept least", stated_least, least, self._of_networks)
        yield from quality_checks(chain, quality, self.no_reference, self._why(None, None))
        place = {entry.trip.number: index for index, entry in enumerate(scored)}
        for trip in chain.trips:
            for metric, stated in sorted(trip.scores.items()):
                line = f"{chain.name}, trip {trip.number}"
                distances = made.get(metric)
                if distances is None or trip.number not in place:
                    here = source if trip.number in place else None
                    yield Check(line, metric, NOT_CHECKED, self._why(metric, here))
                    continue
                computed = distances[place[trip.number]]
                yield compared(line, metric, stated, computed, self._tolerance(metric))

    def _orders(self) -> Iterator[Check]:
        """Check the comparison of the images of two chain shapes."""
        stated = self.document.run.orders
        if not stated and not any(pair.against for pair in self.suite.pairs):
            return
        if not self.document.pictures:
            yield Check("run", "orders", NOT_CHECKED, NO_PICTURES)
            return
        chains = {(chain.case, chain.repeat): chain for chain in self.document.chains}

        def read(case: SuiteCase, repeat: int, number: int, place: int) -> Picture | None:
            chain = chains.get((case.slug, repeat))
            trips = {trip.number: trip for trip in chain.trips} if chain else {}
            trip = trips.get(number)
            if trip is None or trip.step is None:
                return None
            return self._picture("", trip.edits[place - 1][1])[0]

        rows = compare_orders(self.suite, read)
        yield compared("run", "orders", stated, rows, CLASSICAL)

    # From scores to standings.

    def _statistics(self) -> Iterator[Check]:
        trips = self.suite.trips
        stated = {(s.metric, s.level, s.scope): s for s in self.document.standings}
        for raw in self.bundle.raw["standings"]:
            yield digest_check(self.names[id(raw)], raw)
        if len(stated) < len(self.document.standings):
            yield Check("standings", "rows", DIFFERENT, "one stands here twice")
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
                for standing in standings(metric, [chain for _, chain in chains], trips):
                    key = (metric, standing.level, standing.scope)
                    expected.add(key)
                    numbers = as_json(standing.numbers)
                    yield self._standing(key, stated.get(key), numbers)
            except (KeyError, ValueError) as error:
                yield Check("run", f"statistics of {metric}", DIFFERENT, str(error))
        for key in stated.keys() - expected:
            yield Check(
                bundles.standing_name(*key), "numbers", DIFFERENT, "the scores do not give it"
            )

    def _measured(self, metric: str) -> list[tuple[ChainRecord, MeasuredChain]] | None:
        calibrations = {r.picture: r for r in self.document.calibrations if r.metric == metric}
        return measured(self.suite, metric, calibrations, self.document.chains)

    def _standing(self, key: tuple[str, float, str], row: Any, found: dict[str, Any]) -> Check:
        line = bundles.standing_name(*key)
        if row is None:
            return Check(line, "numbers", DIFFERENT, "it is not in the bundle")
        stated = {name: getattr(row, name) for name in found}
        return compared(line, "numbers", stated, found)

    # The metrics and witnesses that can run here.

    def _unable(self, name: str) -> str:
        """Return why this metric's scores cannot be computed here; "" if they can."""
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
            name: panel.not_run.get(name, "it is another version here")
            for name, version in self._witnesses.items()
            if here.get(name) != version
        } | {"judge": "a judge is not asked again: its answers are kept where it was asked"}

    def _why(self, metric: str | None, source: Picture | None) -> str:
        if source is None:
            return "its pictures are not sound" if self.document.pictures else NO_PICTURES
        if metric in self.unable:
            return self.unable[metric or ""]
        return self.scorer.unfit(source.size).get(metric or "", "it is not among the run's metrics")

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
            pictures = [
                (trip.forward.sha256, trip.backward.sha256)
                for trip in chain.trips
                if trip.forward and trip.backward
            ]
            whole = len(pictures) == len(chain.trips)
            repeats = whole and has_converged(pictures, stop_after)
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
        yield compared(line, "its return is here", True, there)
        valid = vote.answer in ANSWERS[vote.kind] and (vote.kind == "pair") == bool(vote.against)
        yield compared(line, "an answer of its kind", True, valid)


def drift_checks(bundle: Bundle) -> Iterator[Check]:
    """Check that global edits count as seen if they exceed the model's drift."""
    suite = bundle.suite
    measured = {slug: bundle.arm.measured(pair) for slug, pair in suite.pair_by_slug.items()}
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
    """Return the retention fields without the names of metric and place."""
    fields = dict(found)
    if "because" in fields:
        fields["because"] = fields["because"] in ("", *METRICS)
    if place := fields.get("worst_place"):
        inside = all(0 <= side <= MOST_PIXELS for side in place[:-1])
        fields["worst_place"] = [len(place), inside, place[-1]]
    return fields
