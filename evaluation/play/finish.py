"""Finish a scored run: what its audits found, and what a judge says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evaluation.analysis.chain_scores import ChainScores
from evaluation.audits.findings import Audited, Finding, find, judged
from evaluation.audits.plan import Audit
from evaluation.audits.touch import Touch
from evaluation.content.suites import EditPair
from evaluation.images import Picture
from evaluation.measuring.scoring import Scorer
from evaluation.metrics.no_reference import WORN
from evaluation.play.run_folder import PlayedChain, RunFolder
from evaluation.play.run_scores import RunScores
from evaluation.witnesses.judge.hearing import ReadTrip, ask_worn, hear_chain, with_judge
from evaluation.witnesses.judge.judge import Judge
from evaluation.witnesses.panel import Verdict


def audit_findings(folder: RunFolder, scorer: Scorer) -> dict[tuple[str, int], Finding]:
    """What every audit found that was answered, and whose chain came back to compare with.

    By chain and trip.
    """
    return {
        (slug, number): found
        for slug, chain in folder.chains.items()
        for number, found in _of_chain(folder, chain, scorer)
    }


def _of_chain(
    folder: RunFolder, chain: PlayedChain, scorer: Scorer
) -> Iterator[tuple[int, Finding]]:
    pair = folder.pair(chain)
    for made in chain.audits:
        if not made.file or len(chain.trips) < made.number:
            continue
        *_, sent, backward = chain.trips[made.number - 1]
        source = folder.source(chain)
        before = folder.read(chain, chain.trips[made.number - 2][-1]) if made.number > 1 else source
        audit = Audit(chain.case, chain.repeat, made.number, made.kind)
        touch = Touch(
            audit,
            folder.secret,
            pair.of_return(made.number),
            before,
            folder.read(chain, sent),
        )
        own, answer = folder.read(chain, backward), folder.read(chain, made)
        yield made.number, find(made.kind, touch, source, own, answer, scorer)


def judged_run(findings: Sequence[Finding], scores: RunScores) -> Audited:
    """What the audits and the witnesses of a run mean."""
    first = [Verdict.of(c.trips[0].evidence).made for c in scores.chains.values() if c.trips]
    return judged(findings, [made for made in first if made is not None])


def judged_by(judge: Judge, folder: RunFolder, scores: RunScores) -> RunScores:
    """The scores with what the judge says of each chain; a judge that fails changes nothing."""
    chains = {
        slug: _judged(judge, folder, folder.chains[slug], scored)
        for slug, scored in scores.chains.items()
    }
    provenance = {**scores.provenance, "judge": judge.summary()}
    return replace(scores, chains=chains, provenance=provenance)


def _judged(
    judge: Judge, folder: RunFolder, chain: PlayedChain, scored: ChainScores
) -> ChainScores:
    source, played = folder.source(chain), chain.trips

    def read(number: int) -> tuple[Picture, Picture, Picture]:
        before = source if number == 1 else folder.read(chain, played[number - 2][-1])
        forward, *_, backward = played[number - 1]
        return before, folder.read(chain, forward), folder.read(chain, backward)

    return judged_chain(judge, source, read, folder.pair(chain), chain.slug, scored)


def judged_chain(
    judge: Judge, source: Picture, read: ReadTrip, pair: EditPair, about: str, scored: ChainScores
) -> ChainScores:
    """The scores of one chain with what the judge says of its trips."""
    trips = list(scored.trips)
    for number, said in hear_chain(judge, source, len(trips), read, pair, about).items():
        trip = trips[number - 1]
        trips[number - 1] = trip.model_copy(update={"evidence": with_judge(trip.evidence, said)})

    def returned(number: int) -> Picture | None:
        pictures = read(number)
        return pictures[2] if pictures else None

    worn = ask_worn(judge, source, len(trips), returned, about)
    told = {WORN: tuple(worn)} if any(said is not None for said in worn) else {}
    return replace(scored, trips=tuple(trips), quality={**scored.quality, **told})
