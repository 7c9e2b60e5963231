"""Requirements on a contributed bundle, before and while it is recomputed.

The file is untrusted: every refusal names its reason, and the site shows only values that
were computed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED, Check
from evaluation.bundle.document import Bundle, BundleError
from evaluation.bundle.verify import Verification
from evaluation.metrics import METRICS, in_order
from leaderboard.contributions.importing import known_digest
from leaderboard.models import ContributedRun, EditingModel, Run, StoredImage, Suite, Trip
from leaderboard.models.entries import free_slug, taken_name
from leaderboard.models.pictures import MAX_WEB_PIXELS

#: Limits on an untrusted bundle: bytes of its directory and JSON, pixels per image.
LIMITS = {
    "max_directory": 4 * 2**20,
    "max_document": 24 * 2**20,
    "max_pixels": MAX_WEB_PIXELS,
}
#: The editor of models whose runs are contributed; they cannot be played here.
EDITOR = "elsewhere"
#: The check ends after this number of reasons.
REASONS = 5
#: Admins are notified if another run has at least this share of the images.
SAME_PICTURES = 0.5


def suite_of(bundle: Bundle) -> Suite:
    """Return the suite of the bundle's run.

    Raises BundleError if the bundle cannot become a run.
    """
    document, stated_suite = bundle.document, bundle.suite
    if document.run.method_version != METHOD_VERSION:
        raise BundleError(
            f"it was scored by method {document.run.method_version[:20]}; this site's is "
            f"{METHOD_VERSION}: score it with this version of convergebench"
        )
    suite = Suite.objects.playable().filter(content_hash=stated_suite.content_hash).first()
    if suite is None:
        raise BundleError(
            f"its suite {stated_suite.slug} v{stated_suite.version} ({stated_suite.content_hash[:12]}) is not a suite "
            "of this site: play one of them, whole, without --trips, --cases or --limit"
        )
    if not bundle.arm.is_default:
        raise BundleError("it was played in another way than the suite's own: an experiment's arm")
    if not document.pictures:
        raise BundleError("it holds no pictures, so nothing of it can be recomputed")
    required = {
        (case.slug, repeat)
        for case in stated_suite.cases
        for repeat in range(stated_suite.repeats_of(case))
    }
    missing = required - {(chain.case, chain.repeat) for chain in document.chains}
    if missing:
        raise BundleError(
            f"{len(missing)} of {len(required)} chains are missing, such as {_first_name(missing)}"
        )
    lost = [chain.name for chain in document.chains if chain.outcome == "lost"]
    if lost:
        raise BundleError(f"the chain {lost[0]} was lost: play it to its end")
    if document.run.earlier_secrets:
        raise BundleError("parts of it were played again by another secret: play it in one piece")
    if run := known_digest(bundle) or Run.objects.filter(secret=document.run.secret).first():
        shown = run.published and not run.suite.sealed
        raise BundleError(f"it is here already{f' as run {run.pk}' if shown else ''}")
    return suite


def reasons_before(verification: Verification) -> Iterator[str]:
    """Yield the reasons to refuse the run before any number is recomputed."""
    headline = in_order(settings.METRICS or METRICS)[0]
    if headline not in verification.bundle.scored_metrics:
        yield (
            f"it was not scored by {headline}: run `convergebench weights`, then "
            "`convergebench score RUN`"
        )
    elif headline in verification.unable:
        yield f"its {headline} cannot be recomputed here: {verification.unable[headline]}"
    for name in verification.unheard:
        yield (
            f"the witness {name}, whose word ends chains, was not asked: run `convergebench "
            "weights`, then `convergebench score RUN --again`"
        )


def reason(check: Check, verification: Verification) -> str:
    """Return the reason to refuse the run by this check; empty if it passes.

    Values of a metric that cannot be computed here are not imported, so they need no check.
    """
    if check.verdict == DIFFERENT:
        return f"{check.line}, {check.what}: {check.detail}"
    if check.verdict == NOT_CHECKED and check.detail not in verification.unable.values():
        return f"{check.line}, {check.what} cannot be checked here: {check.detail}"
    return ""


def provenance(verification: Verification, contributed_by: str) -> dict[str, Any]:
    """Return the provenance of a contributed run.

    Only a few version strings are copied from the bundle; everything else is written here.
    """
    suite, stated = verification.suite, verification.document.run.provenance
    versions = {
        name: str(stated[name])[:60] for name in ("convergebench", "python") if name in stated
    }
    return versions | {
        "contributed_by": contributed_by,
        "suite": {
            "slug": suite.slug,
            "version": suite.version,
            "content_hash": suite.content_hash,
        },
        **({"secret_sha256": c[0]} if (c := verification.document.run.commitments) else {}),
        "scoring": verification.scorer.provenance(),
    }


def same_pictures(run: Run) -> list[dict[str, str]]:
    """Return hints for admins on other runs with most of this run's images."""
    trips = Trip.objects.filter(chain__run=run, restored__isnull=False)
    restored = set(trips.values_list("restored_id", flat=True))
    others = Trip.objects.filter(restored__in=StoredImage.objects.filter(pk__in=restored))
    by_run: dict[int, set[str]] = {}
    rows = others.exclude(chain__run=run).values_list("chain__run", "restored_id").distinct()
    for other, picture in rows:
        by_run.setdefault(other, set()).add(picture)
    return [
        {
            "kind": "same pictures",
            "text": f"{len(same)} of {len(restored)} returns are those of run {pk}",
        }
        for pk, same in sorted(by_run.items())
        if len(same) >= SAME_PICTURES * len(restored)
    ]


def model_of(contribution: ContributedRun) -> EditingModel:
    """Return the model of a checked run: a new one, or the contributor's own.

    Raises BundleError if its name was taken or the model was hidden meanwhile.
    """
    model = contribution.editing_model
    if model is not None:
        if model.status != EditingModel.Status.PUBLISHED:  # an admin hid it, or it was withdrawn
            raise BundleError(f"“{model.name}” is no longer on the site: please write to us")
        return model
    if taken := taken_name(contribution.name):
        raise BundleError(f"“{taken}” is on the site by now: contribute it under another name")
    return EditingModel.objects.create(
        slug=free_slug(contribution.name),
        name=contribution.name,
        provider=contribution.contributed_by[:80],
        organisation=contribution.contributed_by,
        editor=EDITOR,
        access=EditingModel.Access.ELSEWHERE,
        paper_url=contribution.paper_url,
        code_url=contribution.code_url,
        notes="Contributed as a bundle of a run that was played elsewhere; it cannot be played here.",
    )


def _first_name(chains: set[tuple[str, int]]) -> str:
    case, repeat = min(chains)
    return f"{case} (repeat {repeat + 1})" if repeat else case
