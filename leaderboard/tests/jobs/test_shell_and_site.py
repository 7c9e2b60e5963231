"""A run in the shell has the same images and numbers as a run of the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluation.editors import load_editor
from evaluation.play.folder_scores import score_run
from evaluation.play.folder_store import folder_player
from evaluation.play.run_folder import RunFolder, chain_slug
from evaluation.records import MEASURES
from evaluation.run_secret import new_secret
from leaderboard import jobs
from leaderboard.content.loading import store_suite
from leaderboard.jobs.score_job import pinned_scorer
from leaderboard.models import Chain, Score
from leaderboard.testing import factories

SECRET = new_secret()


@pytest.mark.django_db
def test_the_same_secret_gives_the_same_images_and_scores_in_the_shell_and_on_the_site(
    tmp_path: Path,
):
    suite, sources = factories.core_suite(2, (factories.FLIP,), trips=2, repeats=2)
    options: dict[str, Any] = {"sigma": 9}
    run = jobs.start(
        factories.editing_model("noise", "noise", options=options),
        store_suite(suite, sources),
        secret=SECRET,
    )
    jobs.play(run.pk)
    jobs.score(run.pk, linger=False)
    run.refresh_from_db()

    folder = RunFolder.create(
        tmp_path / "run", suite, editor="noise", options=options, secret=SECRET
    )
    for played in folder.chains.values():
        file = tmp_path / "run/chains" / played.slug / "I0_source.png"
        file.parent.mkdir(parents=True)
        file.write_bytes(sources[played.image].data)
    with folder.playing():
        folder_player(folder, load_editor("noise", **options)).play()
    scores = score_run(folder, pinned_scorer(run))

    images: set[str] = set()
    for chain in Chain.objects.select_related("case").prefetch_related("trips"):
        slug = chain_slug(chain.case.slug, chain.repeat)
        trips = list(chain.trips.all())
        on_site = [sha256 for trip in trips for sha256 in (trip.edited_id, trip.restored_id)]
        assert [edit.sha256 for edit in folder.chains[slug].edits] == on_site
        images.update(on_site)
        in_shell = scores.chains[slug]
        for name in MEASURES:
            assert [getattr(trip, name) for trip in trips] == [
                getattr(trip, name) for trip in in_shell.trips
            ]
        for metric in run.scored_metrics:
            distances = Score.objects.filter(trip__chain=chain, metric__name=metric)
            stored = list(distances.order_by("trip__number").values_list("distance", flat=True))
            # Nothing by a metric that does not apply, such as one of faces. A network's last
            # digits depend on how many threads share an image.
            assert stored == pytest.approx(in_shell.distances[metric] or (), abs=1e-6)
            retention = scores.retention(in_shell, metric) or ()
            assert chain.retention(metric) == pytest.approx(retention, abs=1e-5)
    assert Score.objects.filter(metric__name="ssim").count() == 2 * 2 * 2
    assert len(images) == 2 * 2 * 2 * 2
