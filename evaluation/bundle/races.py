"""Was a raced run played in the rounds that its secret deals, and by the rule for its looks?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.analysis.covariance import Design
from evaluation.analysis.half_life import summary_and_values
from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.analysis.racing import Look, Race, RaceError, interval_of, rounds_of, spending
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED, Check, compared
from evaluation.bundle.format import Bundle
from evaluation.bundle.numbers import measured


def stated_race(bundle: Bundle) -> tuple[Race, list[Look]] | None:
    """The race and its looks; None where the run is not raced. RaceError where they do not fit.

    What each look settled is said by its ranks.
    """
    run = bundle.document.run
    if run.race is None:
        return None
    race = Race.from_dict(run.race.model_dump())
    return race, race.read_looks([row.model_dump() for row in run.race_looks])


def dealt(bundle: Bundle, race: Race) -> dict[str, int]:
    """The round of each case, by the first secret of the run: rounds are dealt once."""
    suite = bundle.suite
    cases = [(case.slug, suite.pair_by_slug[case.pair].category) for case in suite.cases]
    return rounds_of(cases, race.rounds, bundle.document.run.secrets[-1])


def race_checks(bundle: Bundle) -> Iterator[Check]:
    """Every check of a race that the bundle allows: the runs it was against are not in it."""
    run = bundle.document.run
    try:
        found = stated_race(bundle)
    except RaceError as error:
        yield Check("run", "race", DIFFERENT, str(error))
        return
    if found is None:
        if run.race_looks or run.race_stopped:
            yield Check("run", "race", DIFFERENT, "a run that is not raced has looks of a race")
        return
    race, looks = found
    said = [row.settled for row in run.race_looks]
    yield compared("run", "what its looks settle", said, [look.settled for look in looks])
    ended = bool(looks and looks[-1].settled)
    yield compared("run", "whether the race ended early", run.race_stopped, ended)
    alphas = spending(race.rounds)
    spent = [alphas[look.round - 1] for look in looks]
    yield compared("run", "what its looks may err by", [look.alpha for look in looks], spent)
    rounds = dealt(bundle, race)
    last = looks[-1].round if ended else race.rounds
    wanted = sorted(slug for slug, number in rounds.items() if number <= last)
    played = sorted({chain.case for chain in bundle.document.chains})
    yield compared("run", "cases of the rounds that it played", played, wanted)
    yield from _looks(bundle, looks, rounds)
    if ended:
        why = "the runs it was compared with are not here"
        yield Check(f"look after round {last}", "ranks", NOT_CHECKED, why)


def _looks(bundle: Bundle, looks: list[Look], rounds: Mapping[str, int]) -> Iterator[Check]:
    """What each look says of the run itself, made again; its ranks rest on others."""
    headline = next(iter(bundle.scored_metrics), "")
    calibrations = {r.picture: r for r in bundle.document.calibrations if r.metric == headline}
    trips = bundle.suite.trips
    for look in looks:
        line = f"look after round {look.round}"
        lines = [
            c for c in bundle.document.chains if rounds.get(c.case, 0) in range(1, look.round + 1)
        ]
        chains = measured(bundle.suite, headline, calibrations, lines) if headline else None
        if not chains:
            yield Check(line, "numbers", NOT_CHECKED, "no metric says anything of its chains")
            continue
        values = summary_and_values([one.result for _, one in chains], trips, DEFAULT_LEVEL)[1]
        design = Design(values.cases)
        between = interval_of(design, values.usable, look.alpha, trips) if look.interval else None
        found: dict[str, Any] = {
            "cases": len(values.cases),
            "usable_trips": float(design.mean(values.usable)),
            "interval": between and [between.low, between.high],
        }
        told = look.to_dict()
        yield compared(line, "numbers", {name: told[name] for name in found}, found)
