"""What the paper says: methods, results, limits and how to cite them, of one suite's board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.levels import DEFAULT_LEVEL, is_lost
from evaluation.errors import UserFacingError
from evaluation.metrics import HEADLINE
from leaderboard import formatting
from leaderboard.board import citations
from leaderboard.board.row import BoardFilters, BoardRow, board_order
from leaderboard.board.rows import RANKED, YARDSTICK, board_rows
from leaderboard.exchange.documents.blocks import (
    Block,
    Document,
    Figure,
    Paragraph,
    Points,
    Section,
    Table,
    Verbatim,
)
from leaderboard.exchange.paper import results
from leaderboard.models import Case, Suite, SuiteReport

AUTHOR = "The ConvergeBench contributors"


class PaperError(UserFacingError):
    """A paper that cannot be written."""


@dataclass(frozen=True)
class Board:
    """A suite's board as the paper reads it, the longest-lasting first."""

    suite: Suite
    filters: BoardFilters
    models: Sequence[BoardRow]
    yardsticks: Sequence[BoardRow]
    report: SuiteReport | None

    @classmethod
    def of(cls, suite: Suite) -> Board:
        """What is public of this suite; PaperError where nothing was measured yet."""
        if suite.published_elsewhere:
            raise PaperError(f"{suite} was published elsewhere: nothing was measured here")
        filters = BoardFilters(suite)
        rows = [row for row in board_rows(filters, whole=True) if row.standing]
        if not rows:
            raise PaperError(f"nobody has results on {suite} yet: play a run first")
        return cls(
            suite,
            filters,
            sorted((r for r in rows if r.group != YARDSTICK), key=board_order),
            sorted((r for r in rows if r.group == YARDSTICK), key=board_order),
            SuiteReport.objects.filter(suite=suite, method_version=METHOD_VERSION).first(),
        )

    @property
    def ranked(self) -> list[BoardRow]:
        return [row for row in self.models if row.group == RANKED]

    @property
    def shown(self) -> Sequence[BoardRow]:
        """Whom the results are about; the yardsticks while there is nobody else."""
        return self.models or self.yardsticks


def paper(board: Board) -> Document:
    """The whole text."""
    suite = board.suite
    return Document(
        title=f"How many round trips does a picture last? Results on {suite}",
        author=AUTHOR,
        date=f"{timezone.localdate():%-d %B %Y}",
        abstract=_abstract(board),
        sections=[
            Section("Introduction", _introduction()),
            Section("The suite", _suite(board)),
            Section("Methods", _methods(board)),
            Section("Results", _results(board)),
            Section("Robustness", _robustness(board)),
            Section("Agreement with people", _people(board)),
            Section("Limits", _limits()),
            Section("How to cite and to check", _citation(board)),
        ],
    )


def _abstract(board: Board) -> str:
    suite = board.suite
    count = formatting.count(len(board.ranked), "ranked model")
    text = (
        "An image-editing model is asked for an edit and then for its inverse, again and again. "
        f"On {suite}, {formatting.count(suite.cases.count(), 'case')} of {suite.trips} round trips "
        f"each, we measure after how many of them a picture can no longer be used. {count} "
        f"and {formatting.count(len(board.yardsticks), 'reference editor')} were measured."
    )
    best = board.ranked[:1]
    if best and best[0].standing:
        standing = best[0].standing
        around = formatting.interval(standing.usable_trips_low, standing.usable_trips_high)
        leaders = [row for row in board.ranked if row.standing and row.standing.rank == 1]
        text += (
            f" The longest-lasting, {best[0].model.name}, keeps a picture usable for "
            f"{standing.usable_trips:.1f} trips{f' (95 % interval {around})' if around else ''}."
        )
        if len(leaders) > 1:
            text += (
                f" {len(leaders)} models share the first rank: the cases cannot tell them apart."
            )
    return text


def _introduction() -> list[Block]:
    return [
        Paragraph(
            "People do not edit once: they try, look, and take back. An editing system in which "
            "every step costs a little of the picture cannot be steered for long, however good a "
            "single edit looks. A round trip, an edit and its inverse, has the source itself as its "
            "reference, so what is lost can be measured without asking anybody. An edit that is "
            "not made, or not taken back, ends a chain as much as wear does."
        )
    ]


def _suite(board: Board) -> list[Block]:
    suite = board.suite
    pictures = suite.pictures.count()
    pairs = Case.objects.filter(suite=suite).values("pair_slug").distinct().count()
    found: list[Block] = [
        Paragraph(
            f"{suite} has {formatting.count(suite.cases.count(), 'case')}: "
            f"{formatting.count(pictures, 'source picture')} and "
            f"{formatting.count(pairs, 'edit pair')}, each played for "
            f"{formatting.count(suite.trips, 'round trip')}. It is frozen; its content hash is"
        ),
        Verbatim(suite.content_hash),
        results.suite_table(suite),
    ]
    power = board.report.power if board.report else {}
    if power.get("models_alike") is not None:
        found.append(
            Paragraph(
                f"On a board of ten models, two that differ by {power['models_alike']:.1f} usable "
                f"trips of {suite.trips} are told apart in 80 % of boards if models find the same "
                "pictures and edits hard."
            )
        )
    elif power:
        found.append(
            Paragraph(
                "It has too few pictures or pairs for an interval: it shows how a model behaves "
                "and ranks nobody."
            )
        )
    return found


def _methods(board: Board) -> list[Block]:
    label = formatting.metric_label(HEADLINE)
    lost = is_lost(DEFAULT_LEVEL)
    return [
        Paragraph(f"This is method version {METHOD_VERSION}; numbers of other versions never mix."),
        Points(
            [
                "Chain: the source is sent with the forward prompt, the answer with the backward "
                "prompt, and so on. What is sent on is never the answer's own bytes but its pixels, "
                "brought to multiples of four by ordered dither, without any other data.",
                "Retention: Q = 1 - d(source, return) / d(source, blank card), where the blank card "
                "is the source's mean colour. 1 is identical, 0 no better than the card.",
                f"{label}, the headline: trip by trip the smallest retention of the whole picture by "
                "LPIPS, of its worst place outside the edit, of its colours, and of the face where "
                "there is one.",
                "Change seen: every forward edit is checked for having been made, by pixels and, "
                "where a witness with a known error can see it, by meaning. An edit that was not "
                "made, or was not undone, ends the chain before that trip.",
                f"Event: the first trip at which {lost}, the edit fails, or the model breaks the "
                "chain (refusal, blank picture, no answer).",
                "Usable trips: the area under the survival curve up to the suite's last trip. "
                "Half-life: of the exponential decay with as many usable trips; never extrapolated "
                "past the last trip.",
                "Means are taken over repeats, then cases of a category, then categories, each "
                "category the same.",
                "Intervals speak of other pictures and of other edits: the covariance of all "
                "models is the sum of two cluster-robust ones, by picture and by pair, with "
                "Student's t. Ranks are sets from simultaneous intervals of all differences.",
                "Audits: extra backward calls on touched answers show an editor that keeps the "
                "source aside or hides it in its answer.",
            ]
        ),
        results.versions_table([*board.models, *board.yardsticks]),
    ]


def _results(board: Board) -> list[Block]:
    trips, shown = board.suite.trips, board.shown
    found: list[Block] = []
    if board.models:
        found += [
            results.standings_table(board.models, trips),
            results.besides_table(board.models),
        ]
    else:
        found.append(Paragraph("No model is on this board yet; its yardsticks are."))
    found += [
        Figure("lasting", f"Usable trips of {trips} with 95 % intervals; yardsticks in grey."),
        Figure(
            "curves",
            "Picture kept after each round trip, mean over cases with 95 % bands. 0 is a blank "
            "card of the picture's mean colour.",
        ),
        results.kept_table(shown, trips),
        results.category_table(shown),
        results.causes_table(shown),
        Figure("causes", "Share of the chains that each cause ended."),
        results.metrics_table(shown, board.filters.level),
    ]
    if board.yardsticks:
        found.append(results.yardsticks_table(board.yardsticks, trips))
    audits = results.audits_table([*board.models, *board.yardsticks])
    found.append(audits or Paragraph("No audit was played in these runs."))
    return found


def _robustness(board: Board) -> list[Block]:
    numbers: Mapping[str, Any] = board.report.robustness if board.report else {}
    if not numbers:
        return [Paragraph("Too few results to say how robust the order is.")]
    who = "yardsticks" if numbers.get("yardsticks") else "models"
    pairs = dict(
        Case.objects.filter(suite=board.suite).values_list("pair_slug", "pair_title").distinct()
    )
    found: list[Block] = [
        Paragraph(
            f"The order of {numbers['runs']} {who} by usable trips, beside the orders that other "
            "choices of ours would have given."
        ),
        results.robustness_table(numbers, board.suite, pairs),
    ]
    again = numbers.get("retest")
    if again:
        found.append(Paragraph(_retest(again)))
    return found


def _retest(again: Mapping[str, Any]) -> str:
    tau = again.get("tau")
    orders = "" if tau is None else f"the orders agree with a tau of {tau:.2f}, and "
    return (
        f"On {formatting.count(again['cases'], 'case')} that every run played "
        f"{again['repeats']} times, {orders}a run's usable trips differ by "
        f"{again['difference']:.2f} from one playing to the next."
    )


def _people(board: Board) -> list[Block]:
    tables: list[Table] = results.people_tables([*board.models, *board.yardsticks])
    if not tables:
        return [
            Paragraph(
                "There are not enough votes yet to say how far these numbers agree with people."
            )
        ]
    return list(tables)


def _limits() -> list[Block]:
    return [
        Points(
            [
                "A round trip measures what survives, not how good an edit looks: a cautious "
                "editor with small edits is favoured over a bold one.",
                "Not every undoing is well defined: what stood behind an added chair can only be "
                "guessed. The place of the edit is left out of what ends a chain.",
                "Hosted models change behind their name: a run is a date, and it is printed.",
                "Pictures come from open collections that models may have been trained on.",
                "Metrics were made for single distortions: half-lives by different metrics are "
                "not comparable with each other.",
                "Where no witness can see what was asked for, only pixels say that an edit was "
                "made.",
            ]
        )
    ]


def _citation(board: Board) -> list[Block]:
    return [
        Paragraph(
            "Every run can be downloaded as a bundle with its pictures, scores and secret; "
            "“convergebench verify” computes each number again. Cite the suite by its hash and "
            "the numbers by their date:"
        ),
        Verbatim(citations.bibtex(board.filters)),
    ]
