"""What the audits of a run folder found, and what else a person should look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from evaluation.audits.findings import Audited, Finding, find, judged
from evaluation.audits.plan import Audit
from evaluation.audits.touch import Touch
from evaluation.cli.played_chain import PlayedChain
from evaluation.cli.results import run_results
from evaluation.cli.run_folder import RunFolder
from evaluation.cli.run_scores import RunScores
from evaluation.measuring.cheating import signs
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.trip_measures import half_errors
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


def audit_report(folder: RunFolder, scores: RunScores, scorer: Scorer) -> dict[str, Any]:
    """What an admin would see of this run, as plain data."""
    findings = list(audit_findings(folder, scorer).values())
    audited = judged_run(findings, scores)
    summary = next(iter(run_results(folder.suite, scores).values())).summary
    return {
        "verdict": audited.verdict,
        "reasons": list(audited.reasons),
        "change_seen": summary.change_seen,
        "edits_made": summary.edits_made,
        "undone": summary.edits_undone,
        "marks_kept": {
            "median": audited.marks_kept,
            "each": [found.kept for found in findings if found.kept is not None],
        },
        "loss_under_audit": {
            "median": audited.loss_under_audit,
            "each": [found.loss for found in findings if found.kind == "fragility"],
        },
        "hints": [*audited.hints, *_signs(folder, scores)],
    }


def _signs(folder: RunFolder, scores: RunScores) -> list[str]:
    """Signs by name, with how many chains have them."""
    found: Counter[str] = Counter()
    for slug, chain in scores.chains.items():
        errors = [
            error
            for number, trip in enumerate(chain.trips, start=1)
            for error in half_errors(number, trip)
        ]
        pair = folder.pair(folder.chains[slug])
        found.update({sign.name for sign in signs(errors, pair)})
    total = len(scores.chains)
    return [f"{name}, in {count} of {total} chains" for name, count in sorted(found.items())]
