"""A judge's word on a run of the site, where one is set up: asked when all trips are scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from django.conf import settings

from evaluation.content.suites import EditPair
from evaluation.errors import UserFacingError
from evaluation.images import Picture
from evaluation.metrics.no_reference import WORN
from evaluation.witnesses.judge.hearing import ask_worn, hear_chain, with_judge
from evaluation.witnesses.judge.judge import Judge, JudgeOptions
from leaderboard.jobs.job_errors import PictureGone, stored_safely
from leaderboard.jobs.judging.stored_answers import StoredAnswers
from leaderboard.jobs.shutdown import asked_to_stop
from leaderboard.models import Chain, Run, Trip

log = structlog.get_logger(__name__)
SETTINGS = (
    "JUDGE_MODEL",
    "JUDGE_KIND",
    "JUDGE_URL",
    "JUDGE_KEY",
    "JUDGE_PRICE_IN",
    "JUDGE_PRICE_OUT",
    "JUDGE_USD",
)


def judge_run(run: Run, pairs: Mapping[str, EditPair]) -> None:
    """Write what the judge says of each chain beside what other witnesses said.

    Whatever goes wrong with it is logged and told on the model's page, and costs no run.
    """
    try:
        options = JudgeOptions.from_settings({name: getattr(settings, name) for name in SETTINGS})
    except UserFacingError as error:
        log.error("the judge is not set up", run=run.pk, why=str(error))
        return
    if options is None:
        return
    judge = Judge.of(options, StoredAnswers(run))
    try:
        for chain in run.chains.select_related("case__picture__stored"):
            if judge.silent or asked_to_stop():
                break
            _judge_chain(judge, chain, pairs[chain.case.pair_slug])
    finally:
        if judge.client:
            judge.client.close()
    if judge.silent:
        log.warning("the judge is silent", run=run.pk, why=judge.silent)
    run.provenance |= {"judge": judge.summary()}
    run.save(update_fields=["provenance"])


def _judge_chain(judge: Judge, chain: Chain, pair: EditPair) -> None:
    scored = chain.trips.filter(scored_at__isnull=False).select_related("edited", "restored")
    trips = {trip.number: trip for trip in scored}
    stored = chain.case.picture.stored
    if stored is None or not trips:
        return
    try:
        source = stored_safely(stored.read)

        def read(number: int) -> tuple[Picture, Picture, Picture] | None:
            own, last = trips.get(number), trips.get(number - 1)
            before = (last.restored if last else None) if number > 1 else stored
            if not (own and own.edited and own.restored and before):
                return None
            files = (before, own.edited, own.restored)
            first, second, third = (stored_safely(one.read) for one in files)
            return first, second, third

        def returned(number: int) -> Picture | None:
            own = trips.get(number)
            return stored_safely(own.restored.read) if own and own.restored else None

        heard = hear_chain(judge, source, max(trips), read, pair, chain.case.slug)
        worn = ask_worn(judge, source, max(trips), returned, chain.case.slug)
    except PictureGone as error:
        log.warning("a picture for the judge is gone", chain=chain.pk, why=str(error))
        return
    changed: list[Any] = []
    for number, said in heard.items():
        trips[number].evidence = with_judge(trips[number].evidence, said)
        changed.append(trips[number])
    Trip.objects.bulk_update(changed, ["evidence"])
    if any(said is not None for said in worn):
        chain.quality = {**chain.quality, WORN: worn}
        chain.save(update_fields=["quality"])
