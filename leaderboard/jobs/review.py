"""What a person should look at in a run: audits that fail keep it out of the ranks, signs do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from evaluation.audits import findings
from evaluation.audits.touch import Touch
from evaluation.content.suites import EditPair
from evaluation.measuring.cheating import Sign, repeated_answers, signs
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.trip_measures import half_errors
from evaluation.witnesses.panel import Verdict
from leaderboard.jobs.job_errors import stored_safely
from leaderboard.models import Audit, Chain, Run, Trip
from leaderboard.models.runs import WELL

#: What an honest model does now and then; more often is a pattern.
AT_LEAST_CHAINS = 2
AT_LEAST_SHARE = 0.05
EXAMPLES = 5
#: An answer equal to its input is scored as a change not seen, so it needs no hint.
SCORED_ANYWAY = frozenset({"returned its input"})


def review(run: Run, pairs: Mapping[str, EditPair], scorer: Scorer) -> None:
    """Write down what the audits found, what follows for the ranks, and hints for admins."""
    measure_audits(run, pairs, scorer)
    made = Audit.objects.filter(chain__run=run).exclude(finding={})
    found = findings.from_dicts(list(made.values_list("finding", flat=True)))
    audited = findings.judged(found, first_edits_made(run))
    review = run.review
    review.flags = [{"kind": "review", "text": reason} for reason in audited.reasons]
    review.hints = [{"kind": "audit", "text": hint} for hint in audited.hints]
    review.hints += find_signs(run, pairs)
    medians = ("marks_kept", "loss_under_audit", "changed_elsewhere")
    for name in medians:
        setattr(review, name, getattr(audited, name))
    review.save(update_fields=["flags", "hints", *medians])


def first_edits_made(run: Run) -> list[bool]:
    """Of each chain whose first edit a witness looked at, whether it was made."""
    first = Trip.objects.filter(chain__run=run, number=1, scored_at__isnull=False)
    verdicts = [Verdict.of(evidence).made for evidence in first.values_list("evidence", flat=True)]
    return [made for made in verdicts if made is not None]


def measure_audits(run: Run, pairs: Mapping[str, EditPair], scorer: Scorer) -> None:
    """Compare the answers to audits with the chains' own returns, once each."""
    waiting = Audit.objects.filter(chain__run=run, outcome=Audit.Outcome.ANSWERED, finding={})
    for audit in waiting.select_related("answer", "chain__case__picture__stored"):
        case, stored = audit.chain.case, audit.chain.case.picture.stored
        trips = audit.chain.trips.filter(number__in=(audit.number - 1, audit.number))
        by_number = {trip.number: trip for trip in trips.select_related("edited", "restored")}
        own = by_number.get(audit.number)
        before = by_number[audit.number - 1].restored if audit.number > 1 else stored
        if not (own and own.edited and own.restored and before and audit.answer and stored):
            continue  # the chain broke before it returned: there is nothing to compare with
        pair = pairs[case.pair_slug].of_return(audit.number)
        planned = audit.planned
        asked = len(case.asked(audit.number))
        steps = audit.chain.steps.select_related("picture").filter(number=audit.number)
        last = steps.filter(place=asked - 1).first() if asked > 2 else None
        sent_on = last.picture if last and last.picture else own.edited
        first, edited = (stored_safely(picture.read) for picture in (before, sent_on))
        # Of a run that was played again in parts, the secret that drew this part.
        secret = next((s for s in run.secrets if planned.seed(s) == audit.seed), run.secret)
        touch = Touch(planned, secret, pair, first, edited)
        source, back, answer = (
            stored_safely(picture.read) for picture in (stored, own.restored, audit.answer)
        )
        found = findings.find(planned.kind, touch, source, back, answer, scorer)
        audit.finding = asdict(found)
        audit.save(update_fields=["finding"])


def find_signs(run: Run, pairs: Mapping[str, EditPair]) -> list[dict[str, Any]]:
    """Signs in a scored run that its answers are not honest edits, each with its evidence."""
    chains = list(run.chains.select_related("case").prefetch_related("trips"))
    found: dict[str, list[tuple[Chain, Sign]]] = defaultdict(list)
    for chain in chains:
        trips = chain.trips.all()
        errors = [error for t in trips for error in half_errors(t.number, t.measures)]
        for sign in signs(errors, pairs[chain.case.pair_slug]):
            if sign.name not in SCORED_ANYWAY:
                found[sign.name].append((chain, sign))
    least = max(AT_LEAST_CHAINS, AT_LEAST_SHARE * len(chains))
    hints = []
    for name, signed in found.items():
        count = len({chain.pk for chain, _ in signed})
        if count >= least:
            hints.append(_hint(name, f"in {count} of {len(chains)} chains", signed))
    return hints + _alike(chains)


def _hint(name: str, text: str, signed: list[tuple[Chain, Sign]]) -> dict[str, Any]:
    return {
        "kind": name,
        "text": text,
        "evidence": [
            {
                "case": chain.case_id,
                "trip": sign.number,
                "direction": sign.direction,
                "detail": sign.detail,
            }
            for chain, sign in signed[:EXAMPLES]
        ],
    }


def _alike(chains: list[Chain]) -> list[dict[str, Any]]:
    """Whether different sources got the same answer: one chain of each is looked at."""
    by_picture = {
        chain.case.picture_id: chain for chain in reversed(chains) if chain.outcome in WELL
    }
    chosen = Trip.objects.filter(chain__in=by_picture.values(), number=1, edited__isnull=False)
    trips = chosen.select_related("edited", "chain__case")
    answers = {
        trip.chain.case.slug: [stored_safely(trip.edited.read)] for trip in trips if trip.edited
    }
    by_slug = {trip.chain.case.slug: trip.chain.case_id for trip in trips}
    return [
        {
            "kind": "same answer",
            "text": f"to different pictures: {', '.join(group)}",
            "evidence": [
                {"case": by_slug[slug], "trip": 1, "direction": "forward", "detail": slug}
                for slug in group
            ],
        }
        for group in repeated_answers(answers)
    ]
