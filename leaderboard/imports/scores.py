"""Values of no-reference metrics that ran elsewhere, taken into a run of this site."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Prefetch

from evaluation.quality.score_file import (
    MAX_IN_RUN,
    ChainPictures,
    ScoreFile,
    ScoreFileError,
    place,
)
from leaderboard import standings
from leaderboard.models import Chain, Run, Trip
from leaderboard.models.runs import RunState


@transaction.atomic
def import_scores(run: Run, found: ScoreFile) -> None:
    """Take the file's values into the run's chains, and what they say into its result.

    All of it or, where a row names no picture of the run, nothing. A metric that the run has
    from an earlier file is replaced.
    """
    run = Run.objects.select_for_update(of=("self",)).select_related("suite").get(pk=run.pk)
    if run.state != RunState.FINISHED:
        raise ScoreFileError(f"run {run.pk} is {run.get_state_display().lower()}, not finished")
    files = {**run.provenance.get("score_files", {}), **found.metrics}
    if len(files) > MAX_IN_RUN:
        raise ScoreFileError(f"run {run.pk} would have more than {MAX_IN_RUN} imported metrics")
    trips = Prefetch("trips", Trip.objects.select_related("restored").order_by("number"))
    chains = list(run.chains.select_related("case__picture__stored").prefetch_related(trips))
    pictures = {chain.pk: _pictures(chain) for chain in chains}
    place(found, pictures.values())
    for chain in chains:
        others = {n: v for n, v in chain.quality.items() if n not in found.metrics}
        chain.quality = others | pictures[chain.pk].quality
    Chain.objects.bulk_update(chains, ["quality"], batch_size=200)
    run.provenance = {**run.provenance, "score_files": files}
    run.save(update_fields=["provenance"])
    standings.write_no_reference(run, chains)


def _pictures(chain: Chain) -> ChainPictures:
    source = chain.case.picture.stored
    restored = [trip.restored.sha256 if trip.restored else "" for trip in chain.trips.all()]
    return ChainPictures(
        chain.case.slug,
        chain.repeat,
        source.sha256 if source else "",
        tuple(restored[: chain.trips_scored]),
    )
