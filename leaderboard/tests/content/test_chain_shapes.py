"""Chain shapes on the site: played by workers, resumed in the middle of a trip, bundled, shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT
from evaluation.bundle.verify import verify
from leaderboard import jobs
from leaderboard.contributions.importing import import_bundle
from leaderboard.jobs import control
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.models import Case, Chain, EditPair, Run, StoredImage, Suite, Trip, TripStep
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.bundle_runs import altered, bundle_of
from leaderboard.testing.factories import IN_TURN, NESTED, QUARTERS, SHAPES
from leaderboard.testing.played import play
from leaderboard.testing.served_runs import interfere

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]


def shapes(trips: int = 2, images: int = 1) -> Suite:
    return factories.tiny_suite(images, SHAPES, trips=trips)


def chain(run: Run, pair: str) -> Chain:
    return run.chains.get(case__pair_slug=pair)


def answers(run: Run) -> list[Any]:
    """Return every answer of a run by case, trip and step."""
    trips = Trip.objects.filter(chain__run=run)
    steps = TripStep.objects.filter(chain__run=run)
    return [
        *trips.order_by("chain__case__slug", "number").values_list(
            "chain__case__slug", "number", "edited", "edited_seed", "restored", "restored_seed"
        ),
        *steps.order_by("chain__case__slug", "number", "place").values_list(
            "chain__case__slug", "number", "place", "name", "image", "seed"
        ),
    ]


def test_the_oracle_loses_nothing_on_every_shape() -> None:
    run = play("oracle", shapes(), is_reference=True)
    assert run.state == RunState.FINISHED
    assert (run.progress.edits_total, run.progress.edits_done) == (28, 28)
    assert {(t.change_seen, t.from_source) for t in Trip.objects.filter(chain__run=run)} == {
        (True, 0.0)
    }
    names = chain(run, "quarters").steps.values_list("number", "place", "name")
    assert list(names) == [(1, 2, "2-F"), (1, 3, "3-F"), (2, 2, "2-F"), (2, 3, "3-F")]
    assert not chain(run, "in-turn").steps.exists()
    assert run.standings.get(metric__name="ssim", threshold=0.5, scope="all").usable_trips == 2
    met = {(row["pair"], row["edits"], row["standing"]) for row in run.orders}
    assert {("nested", 4, 0), ("other-order", 2, 2), ("other-order", 4, 0)} <= met
    assert {row["distance"] for row in run.orders} == {0.0}


@pytest.mark.parametrize("answered", [1, 2, 3, 5])
def test_a_chain_resumes_at_the_next_step_after_its_worker_died(
    monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    suite = factories.tiny_suite(1, (NESTED,), trips=2)
    model = factories.editing_model("oracle", "oracle", is_reference=True)
    undisturbed = jobs.start(model, suite, secret="5" * 64)
    jobs.play(undisturbed.pk)

    class Killed(BaseException):
        pass

    run = jobs.start(model, suite, secret="5" * 64)

    def dies(store: DatabaseStore) -> bool:
        if run.ledger.filter(outcome="answered").count() >= answered:
            raise Killed
        return False

    with monkeypatch.context() as patch:
        interfere("open_call", dies, patch)
        with pytest.raises(Killed):
            jobs.play(run.pk)
    assert answered <= Run.objects.get(pk=run.pk).progress.edits_done < 8
    jobs.play(run.pk)
    assert answers(run) == answers(undisturbed)
    ledger = list(run.ledger.filter(outcome="answered").values_list("number", "direction"))
    assert len(ledger) == len(set(ledger)) == 8


def test_chains_that_are_played_again_lose_their_steps_too() -> None:
    run = play("oracle", factories.tiny_suite(1, (QUARTERS,), trips=2), is_reference=True)
    one = chain(run, "quarters")
    before = answers(run)
    control.play_from(run, {one.pk: 2})
    assert set(one.steps.values_list("number", flat=True)) == {1}
    jobs.play(run.pk)
    jobs.score(run.pk)
    assert [row[:2] for row in answers(run)] == [row[:2] for row in before]


def test_an_audit_is_made_before_the_last_step_and_keeps_honest_editors_clear(
    settings: Any,
) -> None:
    settings.AUDITS = 12
    run = jobs.start(factories.editing_model("jpeg", "jpeg"), shapes(2, images=2))
    assert run.progress.edits_total == 2 * 28 + 8
    jobs.play(run.pk)
    jobs.score(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.FINISHED
    assert {audit.outcome for c in run.chains.all() for audit in c.audits.all()} == {"answered"}
    assert run.review.marks_kept is None or run.review.marks_kept > 0.5
    assert run.review.flags == []


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return bundle_of(play("jpeg", shapes(), is_reference=True), tmp_path)


def differences(path: Path) -> list[str]:
    with bundles.read(path) as bundle:
        return [f"{c.line}, {c.what}" for c in verify(bundle) if c.verdict == DIFFERENT]


def test_a_bundle_of_shapes_verifies_and_an_altered_step_is_named(packed: Path) -> None:
    assert differences(packed) == []

    def other_seed(document: Any) -> None:
        own = next(c for c in document["chains"] if c["case"] == "image-0--quarters")
        own["trips"][0]["between"][1]["seed"] += 1

    assert differences(altered(packed, other_seed, sealed=True)) == [
        "image-0--quarters, trip 1, 3-F seed"
    ]

    def step_left_out(document: Any) -> None:
        own = next(c for c in document["chains"] if c["case"] == "image-0--quarters")
        del own["trips"][0]["between"][0]

    assert "image-0--quarters, trip 1, steps" in differences(
        altered(packed, step_left_out, sealed=True)
    )

    def nearer(document: Any) -> None:
        document["run"]["orders"][0]["distance"] = 0.5

    assert differences(altered(packed, nearer, sealed=True)) == ["run, orders"]


def test_a_bundle_of_shapes_is_imported_with_every_step(packed: Path) -> None:
    run = Run.objects.get()
    before, orders = answers(run), run.orders
    run.delete()
    with bundles.read(packed) as bundle:
        run = import_bundle(bundle).run
    assert (answers(run), run.orders) == (before, orders)
    assert run.progress.edits_done == run.progress.edits_total == 28


def test_pages_exports_and_the_api_show_every_step(client: Client, tmp_path: Path) -> None:
    run = play("oracle", shapes(1), is_reference=True)
    nested = chain(run, "nested")
    page = client.get(reverse("run_case", args=[run.pk, nested.case_id])).content.decode()
    for letter in "ABb":
        assert f"<b>{letter}</b>" in page
    assert page.count("change seen") >= 2
    steps = nested.steps.select_related("image")
    assert all(step.image.original_url in page for step in steps)
    about = client.get(reverse("run", args=[run.pk])).content.decode()
    assert "The same edits in another order" in about
    assert "2 edits made" in about
    suite = client.get(run.suite.get_absolute_url()).content.decode()
    assert "<dd>14</dd>" in suite.replace("\n", "").replace(" ", "")
    address = f"/api/v1/runs/{run.pk}/cases/{nested.case_id}/trips"
    (trip,) = client.get(address).json()["items"]
    assert [step["name"] for step in trip["between"]] == ["2-B", "3-b"]
    assert [step["letter"] for step in trip["steps"]] == ["A", "B", "b", "a"]
    case = client.get(f"/api/v1/cases/{nested.case_id}").json()
    assert [row[1] for row in case["steps"][0]] == ["A", "B", "b", "a"]
    call_command("export_results", "dataset", str(tmp_path / "out"))
    lines = (tmp_path / "out" / "degraded.jsonl").read_text().splitlines()
    steps_by_case = {row["case"]: row["steps"] for row in map(json.loads, lines)}
    assert steps_by_case["image-0--nested"][0][1] == ["2-B", "B", NESTED.steps[1].prompt]


def test_images_of_middle_steps_are_kept_by_the_garbage_collector() -> None:
    run = play("noise", factories.tiny_suite(1, (QUARTERS,), trips=1), is_reference=True)
    StoredImage.objects.update(created_at="2020-01-01T00:00Z")
    call_command("storage", "clean")
    kept = TripStep.objects.filter(chain__run=run).values_list("image", flat=True)
    assert StoredImage.objects.filter(pk__in=list(kept)).count() == 2


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"shape": "A B b"}, "shape", "b has no prompt"),
        ({"shape": "A a", "steps": [{"name": "A"}]}, "shape", "prompt"),
        ({"shape": "A a", "steps": [{"name": "A", "prompt": "x", "change": "local"}]}, "steps", ""),
        ({"steps": [{"name": "A", "prompt": "x"}]}, "steps", "no shape"),
    ],
)
def test_a_curator_reads_what_is_wrong_with_a_shape(
    fields: dict[str, Any], field: str, message: str
) -> None:
    pair = EditPair(slug="x", title="X", category="objects", forward="x", backward="y", **fields)
    with pytest.raises(ValidationError) as error:
        pair.clean()
    assert message in str(error.value.message_dict[field])


def test_rows_of_round_trips_have_no_shape_fields() -> None:
    run = play("jpeg", factories.tiny_suite(1, trips=1), is_reference=True)
    assert not TripStep.objects.exists()
    assert set(Case.objects.values_list("edits", flat=True)) == {2}
    assert [trip.steps for trip in Trip.objects.filter(chain__run=run)] == [[], []]
    assert run.orders == []
    assert IN_TURN.edits(2) == 4


def test_a_models_thoughts_are_shown_below_the_strip_escaped_and_bounded(
    client: Client,
) -> None:
    run = play("jpeg", factories.tiny_suite(1, (NESTED,), trips=1), is_reference=True)
    (one,) = run.chains.all()
    Trip.objects.filter(chain=one).update(
        edited_notes={"reasoning": "<script>alert(1)</script>\nI flip it.\u202e"},
        restored_notes={"reasoning": ["not", "a", "text"]},
    )
    one.steps.filter(place=2).update(notes={"reasoning": "x" * 5000})
    page = client.get(reverse("run_case", args=[run.pk, one.case_id])).content.decode()
    assert "The model’s summary of its reasoning on trip 1" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; I flip it." in page
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "x" * 1000 in page
    assert "x" * 1300 not in page
