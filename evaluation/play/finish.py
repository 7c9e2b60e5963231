"""Finish a scored run: the steps that need all chains of the run.

The judge is a vision-language model that answers questions about trips. Audits are extra requests
that test the editor for cheating.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from evaluation.analysis.events import COMPLETED, STOPPED
from evaluation.audits import findings
from evaluation.audits.cold import Cold
from evaluation.audits.findings import COLD_METRIC, COLD_TRIP, Audited, Finding
from evaluation.audits.plan import Audit
from evaluation.audits.touch import Touch
from evaluation.content.suites import Case, EditPair
from evaluation.images import EncodedImage
from evaluation.measuring.cheating import Sign, repeated_answers, signs
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.trip_measures import (
    ReadStep,
    compare_orders,
    edit_errors,
    identity_drift,
    judge_global,
)
from evaluation.metrics.no_reference import WORN
from evaluation.play.run_folder import chain_slug
from evaluation.play.store import ImageGone, PlayedTrips, ScoreStore
from evaluation.records import TripMeasures
from evaluation.witnesses.base import Verdict
from evaluation.witnesses.judge import Judge, ask_worn, judge_chain, replace_judge_evidence

log = logging.getLogger(__name__)

#: Honest models show a sign of cheating now and then. A sign that reaches both limits is a pattern.
AT_LEAST_CHAINS = 2
AT_LEAST_SHARE = 0.05
#: An answer equal to its input counts as "change not seen" already, so reviewers need no hint of it.
SCORED_ANYWAY = frozenset({"returned its input"})


def finish(
    store: ScoreStore, judge: Judge | None = None, stop: Callable[[], bool] = lambda: False
) -> None:
    """Check edits of whole images, ask the judge, and compare pairs that differ in edit order.

    If `stop` interrupts the judge, a later call asks the remaining questions.
    """
    judge_global_edits(store)
    if judge is not None:
        ask_judge(store, judge, stop)
    if any(pair.against for pair in store.suite.pairs):
        store.save_orders(compare_orders(store.suite, step_reader(store)))


def judge_global_edits(store: ScoreStore) -> None:
    """Decide if each global edit (of the whole image) was made.

    It was made if it changed the image by more than the model's drift: the change that the model
    makes when asked to change nothing.
    """
    chains = list(store.chains())
    drift = identity_drift(
        measures.change_measure
        for chain in chains
        if chain.pair.change == "none"
        for measures in store.measures(chain)
    )
    for chain in chains:
        if chain.pair.change != "global":
            continue
        verdicts: dict[int, TripMeasures] = {}
        for number, measures in enumerate(store.measures(chain), start=1):
            verdict = judge_global(measures.change_measure, drift)
            update = {"change_seen": verdict.seen, "change_measure": dict(verdict.measure)}
            verdicts[number] = measures.model_copy(update=update)
        store.save_measures(chain, verdicts)


def ask_judge(store: ScoreStore, judge: Judge, stop: Callable[[], bool] = lambda: False) -> None:
    """Add the judge's evidence to each chain."""
    for chain in store.chains():
        if judge.stopped or stop():
            break
        try:
            _ask_about_chain(store, judge, chain)
        except ImageGone as error:
            log.warning("cannot judge chain %s: an image is gone: %s", chain.slug, error)
    store.save_judge(judge.summary())


def _ask_about_chain(store: ScoreStore, judge: Judge, chain: PlayedTrips) -> None:
    source, measures = store.source(chain), store.measures(chain)
    if not measures:
        return

    def read(number: int) -> tuple[EncodedImage, EncodedImage, EncodedImage] | None:
        edited = store.answer(chain, number, 0)
        before, back = (restored(store, chain, n) for n in (number - 1, number))
        return (before, edited, back) if before and edited and back else None

    by_trip = judge_chain(judge, source, len(measures), read, chain.pair, chain.slug)
    worn = ask_worn(judge, source, len(measures), partial(restored, store, chain), chain.slug)
    store.save_measures(
        chain,
        {
            number: measures[number - 1].model_copy(
                update={"evidence": replace_judge_evidence(measures[number - 1].evidence, evidence)}
            )
            for number, evidence in by_trip.items()
        },
    )
    if any(answer is not None for answer in worn):
        store.save_no_reference(chain, WORN, worn)


def restored(store: ScoreStore, chain: PlayedTrips, number: int) -> EncodedImage | None:
    """Return the restored image of a trip; for trip 0, the source."""
    if not number:
        return store.source(chain)
    return store.answer(chain, number, len(chain.pair.trip(number)) - 1)


def step_reader(store: ScoreStore) -> ReadStep:
    """Return a function that reads an image by case, repeat, trip and step (from 1)."""
    chains = {chain.slug: chain for chain in store.chains()}

    def read(case: Case, repeat: int, number: int, place: int) -> EncodedImage | None:
        chain = chains.get(chain_slug(case.slug, repeat))
        if chain is None or number > chain.scored:
            return None
        return store.answer(chain, number, place - 1)

    return read


# The review: findings and hints for a person to check.


@dataclass(frozen=True)
class Hint:
    """A sign of cheating, with the chains that show it."""

    kind: str
    text: str
    evidence: Sequence[tuple[PlayedTrips, Sign]]


@dataclass(frozen=True)
class Review:
    """The outcome of the audits, which can unrank a run, and hints, which cannot."""

    audited: Audited
    hints: Sequence[Hint]


def review(store: ScoreStore, scorer: Scorer) -> Review:
    """Measure the audits that have no finding yet, and search for signs of cheating."""
    measure_audits(store, scorer)
    chains = list(store.chains())
    verdicts = [Verdict.from_evidence(t[0].evidence) for c in chains if (t := store.measures(c))]
    unanswered = [
        audit.kind
        for chain in chains
        for audit in store.unanswered_audits(chain)
        if chain.played >= max(1, audit.number)
    ]
    made = [verdict.made for verdict in verdicts if verdict.made is not None]
    audited = findings.judge_audits(store.findings(), made, unanswered)
    hints = [
        *_cold_hints(store, chains, scorer),
        *_sign_hints(store, chains),
        *_repeat_hints(store, chains),
    ]
    return Review(audited, hints)


def measure_audits(store: ScoreStore, scorer: Scorer) -> None:
    """Compare each new audit's answer with the chain's restored image."""
    for chain in store.chains():
        for item in store.audits(chain):
            answer = partial(store.audit_answer, item)
            if finding := audit_finding(store, chain, item.audit, item.secret, answer, scorer):
                store.save_finding(item, finding)


def audit_finding(
    store: ScoreStore,
    chain: PlayedTrips,
    audit: Audit,
    secret: str,
    answer: Callable[[], EncodedImage],
    scorer: Scorer,
) -> Finding | None:
    """Return the finding of an audit; None if the chain has no image to compare with."""
    recreated = recreate_audit(store, chain, audit, secret)
    if recreated is None:
        return None
    request, expected = recreated
    if isinstance(request, Cold):
        return findings.find_cold(request, expected, answer(), scorer)
    return findings.find(audit.kind, request, store.source(chain), expected, answer(), scorer)


def recreate_audit(
    store: ScoreStore, chain: PlayedTrips, audit: Audit, secret: str
) -> tuple[Touch | Cold, EncodedImage] | None:
    """Recreate an audit's request, and return it with the chain's restored image to compare.

    Returns None if the chain ended before it restored that image. Cold audits send the source with
    an object drawn in; all others send a touched (slightly altered) forward answer.
    """
    if audit.kind != "cold":
        return recreate_touch(store, chain, audit, secret)
    number = min(COLD_TRIP, chain.played)
    if not number or chain.image is None or (back := restored(store, chain, number)) is None:
        return None
    source = store.source(chain)
    return Cold(audit, secret, chain.pair, source, chain.image.annotations), back


def _cold_hints(store: ScoreStore, chains: Sequence[PlayedTrips], scorer: Scorer) -> Iterator[Hint]:
    """Yield a hint if cold audits were answered but cannot be judged here."""
    if COLD_METRIC not in scorer.metrics:
        cold = [a for chain in chains for a in store.audits(chain) if a.audit.kind == "cold"]
        if cold:
            yield Hint("cold audits", f"{len(cold)} are not judged: LPIPS was not run", ())


def recreate_touch(
    store: ScoreStore, chain: PlayedTrips, audit: Audit, secret: str
) -> tuple[Touch, EncodedImage] | None:
    """Recreate an audit's touched image, and return it with the restored image of that trip.

    Returns None if the chain ended before it restored that image.
    """
    number = audit.number
    if number > chain.played:
        return None
    last = len(chain.pair.trip(number)) - 1
    before, sent = restored(store, chain, number - 1), store.answer(chain, number, last - 1)
    back = restored(store, chain, number)
    if before is None or sent is None or back is None:
        return None
    return Touch(audit, secret, chain.pair.last_edit_as_pair(number), before, sent), back


def _sign_hints(store: ScoreStore, chains: Sequence[PlayedTrips]) -> Iterator[Hint]:
    """Yield a hint for each sign that appears in enough chains."""
    by_sign: Mapping[str, list[tuple[PlayedTrips, Sign]]] = defaultdict(list)
    for chain in chains:
        for sign in chain_signs(store.measures(chain), chain.pair):
            if sign.name not in SCORED_ANYWAY:
                by_sign[sign.name].append((chain, sign))
    least = max(AT_LEAST_CHAINS, AT_LEAST_SHARE * len(chains))
    for name, shown in by_sign.items():
        count = len({chain.slug for chain, _ in shown})
        if count >= least:
            yield Hint(name, f"in {count} of {len(chains)} chains", shown)


def chain_signs(measures: Sequence[TripMeasures], pair: EditPair) -> list[Sign]:
    """Return the signs of cheating in the trips of a chain."""
    errors = [error for n, trip in enumerate(measures, start=1) for error in edit_errors(n, trip)]
    again = [n for n, trip in enumerate(measures, start=1) if n > 1 and trip.step == 0]
    return [
        *signs(errors, pair),
        *(
            Sign("same image again", n, "backward", f"the image that trip {n - 1} restored")
            for n in again
            if pair.change in ("local", "global") and measures[n - 1].change_seen
        ),
    ]


def _repeat_hints(store: ScoreStore, chains: Sequence[PlayedTrips]) -> Iterator[Hint]:
    """Yield a hint for each group of different source images with the same answer."""
    by_image: dict[str, PlayedTrips] = {}
    for chain in chains:
        if chain.outcome in (COMPLETED, *STOPPED) and chain.played and chain.image:
            by_image.setdefault(chain.image.slug, chain)
    by_slug = {chain.slug: chain for chain in by_image.values()}
    answers = {slug: [store.answer(chain, 1, 0)] for slug, chain in by_slug.items()}
    first_answers = {slug: [first] for slug, (first,) in answers.items() if first}
    for group in repeated_answers(first_answers):
        evidence = [(by_slug[slug], Sign("same answer", 1, "forward", slug)) for slug in group]
        yield Hint("same answer", f"to different images: {', '.join(group)}", evidence)
