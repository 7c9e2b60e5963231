"""Which runs a paper needs here: there already, under way, or what they would take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from evaluation.content.suites import find_suite
from evaluation.editors import EditorError, load_editor
from evaluation.estimate import Estimate
from leaderboard import jobs
from leaderboard.exchange.documents.blocks import Table
from leaderboard.exchange.reproduction.facts import Facts, ReproductionError
from leaderboard.models import EditingModel, Run, Suite
from leaderboard.models.runs import ENDED_STATES, RunState

#: A run in these states goes on by itself, once somebody plays or scores it.
PLAYED_ON = (RunState.QUEUED, RunState.PLAYING, RunState.SCORING)


@dataclass(frozen=True)
class Need:
    """One model of a paper on our suite; `run` is its run here, `lacks` why it cannot be played."""

    called: str
    model: EditingModel
    run: Run | None
    lacks: str
    estimate: Estimate

    @property
    def done(self) -> bool:
        return self.run is not None and self.run.state == RunState.FINISHED

    @property
    def words(self) -> str:
        """Where it stands: "finished", "played now, 3 of 40 chains", "needs GEMINI_API_KEY …"."""
        if self.run is not None:
            if self.done:
                return f"finished, run {self.run.pk}"
            chains = f"{self.run.progress.chains_done} of {self.run.progress.chains_total} chains"
            return f"{self.run.get_state_display().lower()}, run {self.run.pk}, {chains}"
        return f"not played: {self.lacks}" if self.lacks else "not played yet"


def suite_of(facts: Facts, name: str = "") -> Suite:
    """The suite that is played for it: the paper's own, or the one named."""
    suite = find_suite(name or facts.suite, Suite.objects.playable().defer("definition"))
    if suite is None:
        raise ReproductionError(
            f"there is no suite {name or facts.suite!r} here: manage.py load_benchmark brings it"
        )
    return suite


def needs(facts: Facts, suite: Suite, chosen: Iterable[str] = ()) -> list[Need]:
    """Every model of the paper, or those `chosen` by slug, with where each stands."""
    named = list(chosen)
    known = {slug: called for called, slug in facts.models.items()}
    wanted: Mapping[str, str] = {slug: known.get(slug, "") for slug in named or known}
    rows = EditingModel.objects.in_bulk(list(wanted), field_name="slug")
    if unknown := [slug for slug in wanted if slug not in rows]:
        raise ReproductionError(f"there is no editing model {', '.join(unknown)} here")
    return [_need(called, rows[slug], suite) for slug, called in wanted.items()]


def _need(called: str, model: EditingModel, suite: Suite) -> Need:
    gone = set(ENDED_STATES) - {RunState.FINISHED}
    runs = Run.objects.as_the_suite_says().filter(suite=suite, editing_model=model)
    run = runs.exclude(state__in=gone).order_by("-current", "-pk").first()
    lacks = "" if run else "; ".join(_missing(model))
    return Need(called, model, run, lacks, model.estimate_on(suite))


def _missing(model: EditingModel) -> list[str]:
    try:
        return load_editor(model.editor, **model.options).missing()
    except (EditorError, TypeError, ValueError, ImportError) as error:
        return [str(error)]


def start(found: Iterable[Need], suite: Suite, budget_usd: Decimal | None = None) -> list[Run]:
    """Start what is not played and can be; `budget_usd` is for each run."""
    return [
        jobs.start(need.model, suite, budget_usd=budget_usd)
        for need in found
        if need.run is None and not need.lacks
    ]


def play(run: Run) -> None:
    """Play and score a run here and now; a job gives up its turn to others, so again and again."""
    done = -1
    while run.state in PLAYED_ON and run.progress.steps_done > done:
        done = run.progress.steps_done
        jobs.play(run.pk)
        jobs.score(run.pk, linger=False)
        run.refresh_from_db()


def needs_table(found: Iterable[Need]) -> Table:
    return Table(
        "runs",
        "What was played here, and what it takes",
        ["Model", "There", "Here", "Takes"],
        [[one.model.name, one.called or "–", one.words, str(one.estimate)] for one in found],
    )
