"""What each metric says of a source's blank card and JPEGs, once for all runs."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.content.suites import SourcePicture
from evaluation.images import Picture
from evaluation.measuring.calibrations.shipped import shipped
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.subject import chain_subject
from leaderboard.models import Calibration, MetricVersion


def calibrate(
    picture: SourcePicture, source: Picture, scorer: Scorer, metrics: Mapping[str, MetricVersion]
) -> None:
    """Have the calibrations of a picture in the database: as they are shipped, else computed."""
    rows = Calibration.objects.filter(pixels_sha256=picture.sha256)
    have = set(rows.values_list("metric_id", flat=True))
    lacking = {name: metric for name, metric in metrics.items() if metric.pk not in have}
    if not lacking:
        return
    subject = chain_subject(picture)
    versions = {name: (m.version, m.weights_sha256) for name, m in lacking.items()}
    found = shipped(picture.sha256, subject, versions)
    if unknown := [name for name in lacking if name not in found]:
        found |= scorer.only(unknown).calibrate(source, subject)
    Calibration.objects.bulk_create(
        (
            Calibration(
                pixels_sha256=picture.sha256,
                metric=lacking[name],
                blank=calibration.blank,
                ladder={str(q): d for q, d in calibration.ladder.items()},
            )
            for name, calibration in found.items()
            if calibration
        ),
        ignore_conflicts=True,
    )
