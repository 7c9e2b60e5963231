"""Plan the runs of an experiment: resolve its arms, estimate its runs, start them.

An arm is one way to play the experiment's suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from evaluation.arms import Arm, ArmError
from evaluation.audits.plan import audit_count
from evaluation.content.catalog import Variant
from evaluation.content.suites import EditPair as CorePair
from evaluation.content.suites import find_suite
from evaluation.editors import EditorError, load_editor
from evaluation.estimate import Estimate
from evaluation.experiment_file import (
    MAX_ARMS,
    MAX_MODELS,
    ExperimentError,
    ExperimentFile,
    check_arms_differ,
)
from leaderboard import jobs
from leaderboard.models import EditingModel, EditPair, Experiment, ExperimentArm, Run, Suite
from leaderboard.models.runs import RunState


@dataclass(frozen=True)
class PlannedRun:
    """A model's run of an arm: the existing run, or the estimate of a new run."""

    arm: ExperimentArm
    model: EditingModel
    #: The arm as the harness represents it; the models use the name `core` for this, too.
    core: Arm
    existing: Run | None
    estimate: Estimate


def resolved_arms(experiment: Experiment) -> dict[str, Arm]:
    """Return the arms with their prompts and clean-up version filled in.

    Raises UserFacingError if something is missing.
    """
    arms = list(experiment.arms.all())
    if not 2 <= len(arms) <= MAX_ARMS:
        raise ExperimentError(f"An experiment has 2 to {MAX_ARMS} arms; the first is the baseline.")
    plain = {arm.name: arm.core for arm in arms}
    check_arms_differ(plain)
    pairs = experiment.suite.core.pairs
    variants = wordings_by_pair(pairs)
    return {name: arm.resolved(pairs, variants) for name, arm in plain.items()}


def wordings_by_pair(pairs: tuple[CorePair, ...]) -> dict[str, tuple[Variant, ...]]:
    """Return the alternative wordings of a suite's pairs, written by curators."""
    rows = EditPair.objects.filter(slug__in=[pair.slug for pair in pairs])
    return {slug: _variants(variants) for slug, variants in rows.values_list("slug", "variants")}


def _variants(rows: Any) -> tuple[Variant, ...]:
    names = ("name", "forward", "backward")
    complete = [row for row in rows if isinstance(row, dict) and all(row.get(n) for n in names)]
    return tuple(Variant(*(str(row[name]) for name in names)) for row in complete)


def plan(experiment: Experiment) -> list[PlannedRun]:
    """Return every run of the experiment with its estimate.

    Raises UserFacingError if a run cannot be played.
    """
    suite = experiment.suite
    if not suite.is_frozen or suite.sealed or suite.published_elsewhere:
        raise ExperimentError(f"{suite} cannot be played in an experiment.")
    models = list(experiment.editing_models.order_by("name"))
    if not 1 <= len(models) <= MAX_MODELS:
        raise ExperimentError(f"An experiment has 1 to {MAX_MODELS} editing models.")
    arms = resolved_arms(experiment)
    cases = list(suite.cases.values_list("repeats", "edits"))
    planned = []
    for model in models:
        _check(model, arms)
        for arm in experiment.arms.all():
            core = arms[arm.name]
            existing = _existing_run(arm, model, core)
            played = [] if existing else [(core.repeats_of(times), each) for times, each in cases]
            chains = sum(times for times, _ in played)
            edits = sum(times * each for times, each in played)
            # A run with default settings may be shown as the model's result, so audits (extra calls)
            # test it for cheating.
            audited = core.is_default and not existing and not model.is_reference
            audits = audit_count(suite.core, settings.AUDITS) if audited else 0
            estimate = model.estimate(edits + audits, max(1, chains))
            planned.append(PlannedRun(arm, model, core, existing, estimate))
    return planned


def _check(model: EditingModel, arms: Mapping[str, Arm]) -> None:
    """Raise UserFacingError if the model's editor cannot play an arm."""
    try:
        editor = load_editor(model.editor, **model.options)
    except (EditorError, TypeError, ValueError, ImportError) as error:
        raise ExperimentError(f"{model} is not set up: {error}") from None
    for name, arm in arms.items():
        if unable := arm.unable(editor):
            raise ArmError(f"{model} cannot play the arm {name}: {'; '.join(unable)}.")


def _existing_run(arm: ExperimentArm, model: EditingModel, core: Arm) -> Run | None:
    """Return the arm's existing run, if any.

    An arm with default settings may use a finished run of the suite.
    """
    run = arm.runs.filter(editing_model=model).order_by("-pk").first()
    if run or not core.is_default:
        return run
    runs = Run.objects.outside_experiments().filter(suite=arm.experiment.suite, editing_model=model)
    finished = runs.filter(state=RunState.FINISHED, source=Run.Source.OURS, complete=True)
    return finished.order_by("-current", "-pk").first()


def total_estimate(planned: list[PlannedRun]) -> Estimate:
    """Sum the estimates of all new runs; times add up because runs are played in sequence."""
    new = [run.estimate for run in planned if run.existing is None]
    usd = (
        None
        if any(estimate.usd is None for estimate in new)
        else sum(estimate.usd or 0.0 for estimate in new)
    )
    return Estimate(sum(e.edits for e in new), usd, sum(e.seconds for e in new))


@transaction.atomic
def start(experiment: Experiment, budget_usd: Decimal | None = None) -> list[Run]:
    """Start a run for each arm and model that has no run yet; return the started runs.

    `budget_usd` is divided among these runs in proportion to their estimated costs.
    """
    Experiment.objects.select_for_update().only("pk").get(pk=experiment.pk)
    planned = plan(experiment)
    total = total_estimate(planned)
    started = []
    for planned_run in planned:
        run = planned_run.existing
        if run is None:
            run = jobs.start(
                planned_run.model,
                experiment.suite,
                arm=planned_run.core,
                stop_after=0,  # full curves, so that arms can be compared by every metric
                budget_usd=_share(budget_usd, planned_run.estimate, total),
                budget_calls=planned_run.estimate.edits + -(-planned_run.estimate.edits // 10),
            )
            started.append(run)
        planned_run.arm.runs.add(run)
    if not experiment.started_at:
        experiment.started_at = timezone.now()
        experiment.save(update_fields=["started_at", "updated_at"])
    return started


def _share(budget: Decimal | None, estimate: Estimate, total: Estimate) -> Decimal | None:
    if budget is None:
        return None
    if estimate.usd is not None and total.usd:
        share = estimate.usd / total.usd
    else:
        share = estimate.edits / total.edits
    return round(budget * Decimal(share), 4)


@transaction.atomic
def store(file: ExperimentFile) -> Experiment:
    """Store the experiment of a file on the site without starting it.

    Raises UserFacingError if something is missing.
    """
    if file.trips or file.cases or file.limit:
        raise ExperimentError(
            "trips, cases and limit work only with `convergebench experiment`; here, freeze a "
            "suite of these cases and set `suite` to it"
        )
    suite = find_suite(file.suite, Suite.objects.playable().defer("definition"))
    if suite is None:
        raise ExperimentError(f"there is no playable suite {file.suite!r} here")
    models = EditingModel.objects.in_bulk(file.models, field_name="slug")
    if unknown := [slug for slug in file.models if slug not in models]:
        raise ExperimentError(f"there is no editing model {', '.join(unknown)} here")
    if Experiment.objects.filter(slug=file.slug).exists():
        raise ExperimentError(f"an experiment {file.slug} already exists: choose another slug")
    experiment = Experiment.objects.create(
        slug=file.slug,
        title=file.title,
        question=file.question,
        suite=suite,
        repeats=file.repeats,
    )
    experiment.editing_models.set(models.values())
    wordings = ExperimentArm.Wording.values
    for position, (name, arm) in enumerate(file.arms.items()):
        if arm.wording not in wordings:
            raise ExperimentError(f"arm {name}: wording must be one of {', '.join(wordings)}")
        ExperimentArm.objects.create(
            experiment=experiment,
            position=position,
            name=name,
            size=_size(name, arm.sizes),
            **{setting: getattr(arm, setting) for setting in ExperimentArm.SETTINGS},
        )
    return experiment


def _size(name: str, sizes: tuple[str, ...]) -> str:
    if sizes == ("1K", "2K", "4K"):
        return "interleaved"
    if len(sizes) > 1:
        raise ExperimentError(f"arm {name}: several sizes must be 1K, 2K and 4K (interleaved)")
    return sizes[0] if sizes else ""
