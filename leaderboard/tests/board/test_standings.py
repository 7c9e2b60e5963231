"""Standings, computed from stored scores, and their ranks."""

from __future__ import annotations

import csv
import html
import io
from typing import Any

import pytest

from evaluation.analysis.thresholds import THRESHOLDS
from evaluation.records import Played
from leaderboard.board.row import BoardFilters
from leaderboard.board.rows import RANKED, UNRANKED, board_rows
from leaderboard.models import (
    Chain,
    EditingModel,
    Run,
    RunReview,
    Standing,
    Suite,
)
from leaderboard.models.runs import ChainState, Outcome
from leaderboard.models.standings import RANK_FIELDS, RANK_FIELDS_HERE
from leaderboard.standings import rebuild, refresh_ranks
from leaderboard.testing.losing_runs import TRIPS, losing_run, losing_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite() -> Suite:
    return losing_suite()


def headline(run: Run, scope: str = "all", threshold: float = 0.5) -> Standing:
    return Standing.objects.get(run=run, metric__name="lpips", threshold=threshold, scope=scope)


def place(run: Run, fields: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(getattr(headline(run), name) for name in fields)


def test_a_chain_that_loses_a_tenth_each_trip_is_usable_for_five(suite):
    standing = headline(losing_run(suite, "tenth", 0.1))
    assert standing.usable_trips == pytest.approx(5)
    assert 4 < standing.usable_trips_low < 5 < standing.usable_trips_high < 6
    assert standing.half_life == pytest.approx(5)
    assert (standing.half_life_low, standing.half_life_high) == pytest.approx((5, 5))
    assert standing.incidence["whole"][4:6] == [0.0, 1.0]
    assert standing.curve["mean"][:3] == [1.0, 0.9, 0.8]
    assert standing.curve["shown"][1] == pytest.approx(0.08, abs=1e-4)
    assert standing.counts["causes"]["whole"] == 24
    assert standing.details["dynamics"]["chains"] == 24
    assert standing.details["jpeg"]["1"] > standing.details["jpeg"]["3"]


def test_every_scope_and_threshold_has_a_standing_unless_the_metric_was_not_run(suite):
    run = losing_run(suite, "m", 0.1)
    scopes = {"all", "category:accessories", "category:objects", "kind:face", "kind:scene"}
    scopes |= {"origin:photograph"}
    scopes |= {f"pair:{thing}-{n}" for thing in ("hat", "ball") for n in range(6)}
    rows = set(run.standings.values_list("scope", "threshold"))
    assert rows == {(scope, threshold) for scope in scopes for threshold in THRESHOLDS}
    assert not run.standings.filter(metric__name="clip").exists()


def test_an_unreached_half_life_is_none_but_has_an_interval(suite):
    standing = headline(losing_run(suite, "slow", 0.01))
    assert standing.half_life is None
    assert standing.has_interval
    assert standing.usable_trips == TRIPS


def test_rebuilding_changes_nothing(suite):
    run = losing_run(suite, "m", 0.1, spread=0.3)
    before = list(
        run.standings.order_by("scope", "threshold").values_list("half_life_low", "auc", "scope")
    )
    rebuild(run)
    after = list(
        run.standings.order_by("scope", "threshold").values_list("half_life_low", "auc", "scope")
    )
    assert before == after


def test_models_that_cannot_be_distinguished_share_a_rank_and_reference_editors_have_none(suite):
    good = losing_run(suite, "good", 0.05, spread=0.05)
    twin = losing_run(suite, "twin!", 0.05, spread=0.05)
    bad = losing_run(suite, "bad", 0.3, spread=0.05)
    reference = losing_run(suite, "oracle", 0.0, is_reference=True)
    refresh_ranks(suite)
    assert headline(good).rank == headline(twin).rank == 1
    assert headline(bad).rank == 3
    assert headline(reference).rank is None
    assert headline(good).p_first + headline(twin).p_first == pytest.approx(1, abs=0.01)
    assert headline(bad).rank_low == headline(bad).rank_high == 3


def test_ranks_of_runs_here_equal_those_of_a_board_without_endpoints(client, suite):
    """Ranks depend on all models that are compared, so they are computed separately."""
    lost = {"here 1": 0.05, "endpoint 1": 0.06, "here 2": 0.07, "endpoint 2": 0.12, "here 3": 0.2}
    for name, each in lost.items():
        losing_run(suite, name, each, spread=0.2)
    EditingModel.objects.filter(name__startswith="endpoint").update(editor="endpoint")
    refresh_ranks(suite)
    runs = {row.editing_model.name: row for row in suite.runs.select_related("editing_model")}
    here = {name: place(run, RANK_FIELDS_HERE) for name, run in runs.items()}
    together = {name: place(run, RANK_FIELDS) for name, run in runs.items()}
    assert here["endpoint 1"] == (None,) * len(RANK_FIELDS)
    assert here["here 3"] != together["here 3"]
    filters = BoardFilters(suite, metric="lpips", ranks="here")
    rows = {row.model.name: row for row in board_rows(filters)}
    assert {
        name: tuple(getattr(rows[name].standing, f) for f in RANK_FIELDS) for name in runs
    } == here
    assert rows["endpoint 1"].group == UNRANKED
    page = client.get("/", {"metric": "lpips", "ranks": "here"}).content.decode()
    assert page.index("here 3") < page.index("endpoint 1")
    query = {"metric": "lpips", "ranks": "here"}
    lines = csv.DictReader(io.StringIO(client.get("/", query | {"format": "csv"}).content.decode()))
    answer = client.get("/api/v1/leaderboard", query).json()["rows"]
    for line, row in zip(lines, answer, strict=True):
        _, _, _, tier, _ = here[line["model"]]
        assert (line["tier"] or None, row["standing"]["tier"]) == (tier, tier)
        assert line["played"] == row["played"] == runs[line["model"]].played
    EditingModel.objects.filter(name__startswith="endpoint").update(status="hidden")
    refresh_ranks(suite)
    alone = {name: place(run, RANK_FIELDS) for name, run in runs.items() if "here" in name}
    assert alone == {name: found for name, found in here.items() if "here" in name}


def test_ranks_do_not_depend_on_the_order_of_stored_rows(suite):
    for name, each in {"one": 0.05, "two": 0.06, "three": 0.07}.items():
        losing_run(suite, name, each, spread=0.2)
    refresh_ranks(suite)
    runs = list(suite.runs.order_by("pk"))
    before = [place(run, RANK_FIELDS) for run in runs]
    for standing in list(Standing.objects.filter(run=runs[0])):
        Standing.objects.filter(pk=standing.pk).delete()
        standing.pk = None
        standing.save(force_insert=True)
    refresh_ranks(suite)
    assert [place(run, RANK_FIELDS) for run in runs] == before


def test_the_note_on_ranking_matches_the_ranks(client, suite):
    fields = {
        Played.HERE: {},
        Played.ENDPOINT: {"editing_model__editor": "endpoint"},
        Played.RECOMPUTED: {"source": Run.Source.EXTERNAL, "verified": True},
        Played.REPORTED: {"source": Run.Source.EXTERNAL, "verified": None},
    }
    runs = {way: losing_run(suite, way, 0.1) for way in fields}
    for way, values in fields.items():
        if editor := values.pop("editing_model__editor", ""):
            EditingModel.objects.filter(name=way).update(editor=editor)
        Run.objects.filter(pk=runs[way].pk).update(**values)
    refresh_ranks(suite)
    for ranks, names in (("", RANK_FIELDS), ("here", RANK_FIELDS_HERE)):
        filters = BoardFilters(suite, metric="lpips", ranks=ranks)
        first_sentence, rest = filters.ranking_note.split(". ")
        page = html.unescape(client.get("/", {"metric": "lpips", "ranks": ranks}).content.decode())
        assert filters.ranking_note in page
        for way, run in runs.items():
            ranked = place(run, names)[0] is not None
            assert (f"“{way}”" in first_sentence) == ranked
            assert (f"“{way}”" in rest) != ranked
        rows = board_rows(filters)
        assert {row.run.played for row in rows} == set(Played)
        for row in rows:
            assert (row.group == RANKED) == (f"“{row.run.played}”" in first_sentence)


def test_exactly_equal_models_share_rank_and_class_in_any_order(suite):
    for name in ("zebra", "apple", "mango"):
        losing_run(suite, name, 0.1, spread=0.2)
    losing_run(suite, "worse", 0.3)
    refresh_ranks(suite)
    runs = {run.editing_model.name: run for run in suite.runs.select_related("editing_model")}
    assert len({place(runs[name], RANK_FIELDS) for name in ("zebra", "apple", "mango")}) == 1
    assert headline(runs["worse"]).tier == "B"


def test_an_incomplete_run_is_listed_but_not_ranked(suite):
    run = losing_run(suite, "part", 0.05)
    losing_run(suite, "whole", 0.1)
    Chain.objects.filter(run=run).first().delete()
    rebuild(run)
    refresh_ranks(suite)
    run.refresh_from_db()
    assert run.current
    assert not run.complete
    assert headline(run).rank is None


def test_a_flagged_run_is_ranked_only_once_an_admin_clears_it(suite):
    run = losing_run(suite, "odd", 0.05)
    RunReview.objects.filter(pk=run.pk).update(flags=[{"kind": "equals_source"}])
    refresh_ranks(suite)
    assert headline(run).rank is None
    RunReview.objects.filter(pk=run.pk).update(cleared=True)
    refresh_ranks(suite)
    assert headline(run).rank == 1


def test_the_newest_finished_public_run_represents_its_model(suite):
    old = losing_run(suite, "m", 0.2)
    entry = old.editing_model
    new = losing_run(suite, "other", 0.1)
    Run.objects.filter(pk=new.pk).update(editing_model=entry)
    refresh_ranks(suite)
    old.refresh_from_db()
    new.refresh_from_db()
    assert (old.current, new.current) == (False, True)
    Run.objects.filter(pk=new.pk).update(published=False)
    refresh_ranks(suite)
    old.refresh_from_db()
    assert old.current


def test_a_broken_chain_and_an_unseen_change_end_where_they_happened(suite):
    run = losing_run(suite, "m", 0.0)
    first, second = Chain.objects.filter(run=run)[:2]
    first.trips.filter(number__gte=4).delete()
    Chain.objects.filter(pk=first.pk).update(outcome=Outcome.REFUSED)
    second.trips.filter(number=3).update(change_seen=False)
    rebuild(run)
    first.refresh_from_db()
    second.refresh_from_db()
    assert first.results["lpips"]["events"]["0.5"] == {"time": 3.0, "cause": "refused"}
    assert second.results["lpips"]["events"]["0.5"] == {"time": 2.0, "cause": "not_made"}
    counts = headline(run).counts
    assert (counts["refused"], counts["change_not_seen"]) == (1, 1)


def test_a_run_in_progress_is_censored_at_its_last_trip(suite):
    run = losing_run(suite, "m", 0.02)
    chain = Chain.objects.filter(run=run).first()
    chain.trips.filter(number__gte=5).delete()
    Chain.objects.filter(pk=chain.pk).update(state=ChainState.PLAYING, outcome="")
    rebuild(run)
    chain.refresh_from_db()
    assert chain.results["lpips"]["events"]["0.5"] == {"time": 4.0, "cause": "lost"}
