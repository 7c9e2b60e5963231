"""`convergebench score`: what came back, against what was there."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.analysis.levels import life, lost
from evaluation.analysis.no_reference import share
from evaluation.cli.judge_options import ANSWERS, add_judge, asked_judge, report_judge
from evaluation.cli.printing import CommandError, note, progress, say, say_json, table
from evaluation.cli.results import MetricResult, run_results, shown
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import METRICS, metric_class
from evaluation.play.folder_scores import score_run
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores
from evaluation.witnesses.judge.judge import Judge

HELP = "score the trips of a run folder"
DESCRIPTION = f"""\
Scores every restored picture of a run against its source by every metric that
can run here, judges whether each edit was made, and writes RUN/scores.json.
That is written after every chain; scored again, only what is new is computed.
A case is usable until {lost()} of its picture is lost, as a whole or in
one place, or an edit was not made; the {life().lower()} is that of the exponential
decay with as many usable trips."""
EPILOG = """\
A metric that cannot run here is "not run", never 0: `convergebench weights`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder made by `play`")
    add_metrics(parser)
    add_judge(parser)
    parser.add_argument("--again", action="store_true", help="compute everything anew")
    parser.add_argument("--json", action="store_true", help="print scores and results as JSON")


def add_metrics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics",
        metavar="NAMES",
        help=f"only these, with commas between ({', '.join(METRICS)})",
    )


def run(args: argparse.Namespace) -> int:
    folder = RunFolder.open(args.run)
    judge = asked_judge(args, folder.path / ANSWERS)
    scores = scored(folder, new_scorer(args.metrics), again=args.again, judge=judge)
    results = run_results(folder.suite, scores)
    if args.json:
        say_json(
            "score",
            {
                "run": str(args.run),
                "name": folder.name,
                "complete": folder.complete,
                "results": {name: result.to_dict() for name, result in results.items()},
                "no_reference": scores.no_reference(folder.suite),
                "scores": scores.to_dict(),
            },
        )
        return 0
    if not folder.complete:
        note(f"{args.run} is not complete: these numbers are of the chains that are")
    say(results_table(results))
    if numbers := scores.no_reference(folder.suite):
        say(f"\n{no_reference_table(numbers)}")
    say(f"\nnext: convergebench report {args.run}")
    return 0


def new_scorer(names: str | None) -> Scorer:
    """The metrics asked for; those that cannot run are named on standard error."""
    # Whether an edit was made is judged with it, whatever the metrics are.
    if importlib.util.find_spec("cv2") is None:
        raise CommandError(
            "scoring needs packages that are not installed: pip install 'convergebench[worker]'"
        )
    wanted = [name.strip() for name in names.split(",")] if names else None
    for name in wanted or ():
        if name not in METRICS:
            raise CommandError(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
    scorer = Scorer(wanted)
    for name, reason in scorer.not_run.items():
        note(f"{name} is not run: {reason}")
    if not any(metric.reference for metric in scorer.metrics.values()):
        raise CommandError("no metric can run here")
    return scorer


def scored(
    folder: RunFolder,
    scorer: Scorer,
    *,
    again: bool = False,
    judge: Judge | None = None,
) -> RunScores:
    """The run's scores, brought up to date and written beside it."""
    trips = sum(len(chain.trips) for chain in folder.chains.values())
    if not trips and not any(chain.outcome for chain in folder.chains.values()):
        raise CommandError(f"{folder.path} has no finished trip yet; `convergebench play` goes on")

    with progress(trips, f"scoring {folder.name}", "trip") as bar:
        scores = score_run(folder, scorer, again=again, judge=judge, on_trips=bar.update)
    if judge:
        report_judge(judge)
    return scores


def no_reference_table(numbers: Mapping[str, Mapping[str, Any]]) -> str:
    """What metrics say that see no source, beside what was lost meanwhile."""
    asked = sorted({int(n) for told in numbers.values() for n in told["trips"]})
    head = ["no-reference metric", "source", f"trip {asked[-1]}", "picture lost"]
    head += [f"called worse at {n}" for n in asked]
    rows = []
    for told in numbers.values():
        worse = [share(told["trips"][str(n)]["source"]) for n in asked]
        rows.append(
            [
                f"{told['label']} ({'higher' if told['higher_is_better'] else 'lower'} is better)",
                _number(told["value"][0], 2),
                _number(told["value"][-1], 2),
                "–" if told["lost"][-1] is None else f"{told['lost'][-1]:.0%}",
                *("–" if part is None else f"{part:.0%}" for part in worse),
            ]
        )
    return table(head, rows)


def results_table(results: dict[str, MetricResult]) -> str:
    if not results:
        return "No metric says anything of these chains: their sources are of one colour."
    head = ["metric", life().lower(), "95 % interval", "usable trips", "AUC", "after 1", "after N"]
    rows = [
        [
            result.label,
            shown(result.summary.half_life, result.trips),
            result.half_life_interval,
            _number(result.summary.usable_trips),
            _number(result.summary.auc, 3),
            _number(result.summary.curve[1], 3),
            _number(result.summary.curve[-1], 3),
        ]
        for result in results.values()
    ]
    summary = next(iter(results.values())).summary
    seen = summary.change_seen
    lines = [
        table(head, rows),
        "",
        f"{_count(summary.cases, 'case')}, {_count(summary.chains, 'chain')} of "
        f"{_count(summary.trips, 'trip')}; "
        f"change seen on {'no judged trip' if seen is None else f'{seen:.0%} of judged trips'}; "
        + ", ".join(f"{count} {name}" for name, count in summary.outcomes.items() if count),
        '"after n" is retention: 1 = identical, 0 = no better than a blank card',
    ]
    if summary.outcomes["known"]:
        lines.append(
            "chains were stopped once their end was known: usable trips and half-life are those of "
            "a full run; AUC, the end of the curve and metrics that fall later are not known"
        )
    return "\n".join(lines)


def ranks_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Several runs of one suite, in the board's order."""
    if not rows:
        return "No metric says anything of all these runs."
    label = metric_class(rows[0]["metric"]).label
    head = ["rank", "run", f"{life().lower()} ({label})", "95 % interval", "usable trips"]
    return table(
        head,
        [
            [
                "-" if row["rank"] is None else str(row["rank"]),
                row["run"],
                row["shown"],
                row["interval_shown"],
                _number(row["usable_trips"]),
            ]
            for row in rows
        ],
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
