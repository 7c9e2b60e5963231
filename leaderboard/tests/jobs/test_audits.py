"""Audits of a run: they are planned, called once, measured, and decide its flags."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.urls import reverse
from PIL import Image

from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED
from evaluation.bundle.verify import verify
from evaluation.content import catalog
from evaluation.content.suites import EditPair
from evaluation.editors import Editor, load_editor
from evaluation.errors import Fault
from evaluation.images import EncodedImage
from evaluation.measuring.scoring import Scorer
from evaluation.testing.editing_server import Call as ServerCall
from evaluation.testing.editing_server import EditingServer, Reply, noisy_turn
from evaluation.testing.tricks import CopiesTouches
from leaderboard import jobs
from leaderboard.contributions.importing import import_bundle
from leaderboard.jobs import control
from leaderboard.jobs.database_store import DatabaseStore
from leaderboard.models import Audit, Call, Chain, Run, Submission, Trip
from leaderboard.models.runs import Outcome, RunState
from leaderboard.submissions import workflow
from leaderboard.testing import factories
from leaderboard.testing.bundle_runs import altered, bundle_of
from leaderboard.testing.served_runs import error, interfere, played, scored, served, started
from leaderboard.testing.submission_fields import form_fields

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick")]

CHAINS, TRIPS = 8, 3
EDITS = 2 * CHAINS * TRIPS


@pytest.fixture(autouse=True)
def _audited(settings: Any) -> None:
    settings.AUDITS = 12


def of(run: Run) -> list[Audit]:
    return list(Audit.objects.filter(chain__run=run).select_related("chain__case"))


def start(server: EditingServer, **fields: Any) -> Run:
    return started(server, TRIPS, images=4, **fields)


def keeps_sources(server: EditingServer) -> Callable[[bytes, str, int], bytes]:
    """A cheat: it recognises an image that it edited before and returns its source."""
    kept: list[tuple[np.ndarray, bytes]] = []

    def small(data: bytes) -> np.ndarray:
        image = Image.open(io.BytesIO(data)).convert("RGB").resize((8, 8))
        return np.asarray(image, dtype=float)

    def edit(image: bytes, prompt: str, seed: int) -> bytes:
        for answered, source in kept:
            if np.abs(answered - small(image)).mean() < 12:
                return source
        answer = noisy_turn(image, prompt, seed)
        kept.append((small(answer), image))
        return answer

    return edit


def test_every_case_of_a_small_suite_is_audited_half_by_marks(server: EditingServer) -> None:
    run = start(server)
    audits = of(run)
    assert Counter(audit.kind for audit in audits) == {"mark": 4, "fragility": 4}
    assert len({audit.chain_id for audit in audits}) == CHAINS
    assert {audit.number for audit in audits} <= {2, 3}
    assert run.progress.edits_total == EDITS + CHAINS


def test_a_reference_editor_is_not_audited(server: EditingServer) -> None:
    assert of(start(server, is_reference=True)) == []


def test_an_audit_is_one_more_call_in_the_ledger_and_enters_no_chain(
    server: EditingServer,
) -> None:
    run = played(start(server))
    assert len(server.calls) == run.progress.calls == run.progress.edits_done == EDITS + CHAINS
    assert run.ledger.filter(direction="audit", outcome=Call.ANSWERED).count() == CHAINS
    assert {audit.outcome for audit in of(run)} == {"answered"}
    assert all(audit.sent and audit.answer and audit.words for audit in of(run))
    trips = {image for chain in run.chains.all() for trip in chain.trips.all()
             for image in (trip.edited_id, trip.restored_id)}  # fmt: skip
    assert not trips & {audit.answer_id for audit in of(run)}
    control.recount(run)
    assert run.progress.edits_done == EDITS + CHAINS


def test_the_audit_comes_before_the_chains_own_call(server: EditingServer) -> None:
    run = played(start(server))
    for audit in of(run):
        calls = audit.chain.ledger.filter(number=audit.number).order_by("started_at")
        order = list(calls.values_list("direction", flat=True))
        assert order == ["forward", "audit", "backward"]


def test_an_honest_run_is_clean_and_shows_its_audits(server: EditingServer) -> None:
    run = scored(played(start(server)))
    assert run.state == RunState.FINISHED
    assert run.review.flags == []
    assert run.review.marks_kept == pytest.approx(1, abs=0.1)
    assert abs(run.review.loss_under_audit or 0) < 0.05
    assert all(audit.finding for audit in of(run))


def test_a_model_that_returns_stored_images_is_not_ranked_and_the_reason_is_shown(
    server: EditingServer,
) -> None:
    server.edit = keeps_sources(server)
    run = scored(played(start(server, max_in_flight=1)))
    assert run.review.marks_kept is not None
    assert run.review.marks_kept < 0.5
    assert "came back" in run.review.flags[0]["text"]
    assert run.complete
    assert not run.is_ranked
    run.review.cleared = True
    assert run.is_ranked


def test_a_killed_run_repeats_no_audit(
    server: EditingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """An exception that no handler catches, as after a kill."""

    run = start(server)
    turns = iter(range(10_000))

    def kill(store: DatabaseStore) -> bool:
        if next(turns) % 9 == 8:
            raise Killed
        return False

    interfere("tick", kill, monkeypatch)
    kills = 0
    while run.state in (RunState.QUEUED, RunState.PLAYING):
        try:
            played(run)
        except Killed:
            kills += 1
    assert kills >= 2
    answered = run.ledger.filter(direction="audit", outcome=Call.ANSWERED)
    assert answered.count() == CHAINS
    assert answered.values("chain", "number").distinct().count() == CHAINS
    # A call that was in flight at a kill is asked again under the key that it had.
    audits = Counter(call.key for call in server.calls)
    assert len(audits) == EDITS + CHAINS
    assert run.progress.calls >= len(server.calls)


def test_a_budget_pauses_before_an_audit_too(server: EditingServer) -> None:
    run = played(start(server, budget_calls=EDITS + CHAINS - 1, max_in_flight=1))
    assert (run.state, run.reason) == (RunState.PAUSED, "budget")
    assert run.progress.calls == EDITS + CHAINS - 1


def test_a_refused_audit_ends_no_chain(server: EditingServer) -> None:
    run = start(server)
    audit = of(run)[0]
    seed = audit.planned.seed(run.secret)

    def refuse(image: bytes, prompt: str, asked: int) -> bytes:
        if asked == seed:
            raise AssertionError
        return noisy_turn(image, prompt, asked)

    def instead(call: ServerCall) -> Reply | None:
        return (
            error(400, body=b'{"error": "content policy violation"}') if call.seed == seed else None
        )

    server.edit, server.instead = refuse, instead
    played(run)
    audit.refresh_from_db()
    assert audit.outcome in (Audit.Outcome.REFUSED, Audit.Outcome.FAILED)
    assert set(run.chains.values_list("outcome", flat=True)) == {"completed"}
    scored(run)
    assert run.review.flags == []


def test_an_outage_at_an_audit_pauses_the_run_and_it_is_made_later(
    server: EditingServer,
) -> None:
    run = start(server, max_in_flight=1)
    seeds = {audit.planned.seed(run.secret) for audit in of(run)}
    server.instead = lambda call: error(401) if call.seed in seeds else None
    played(run)
    assert (run.state, run.reason) == (RunState.PAUSED, Fault.KEY_REJECTED.value)
    server.instead = lambda call: None
    jobs.resume(run)
    played(run)
    assert {audit.outcome for audit in of(run)} == {"answered"}
    assert run.progress.edits_done == EDITS + CHAINS


def test_the_plan_of_audits_is_secret_until_the_run_has_finished(
    server: EditingServer, client: Any
) -> None:
    run = played(start(server))
    Run.objects.filter(pk=run.pk).update(published=True)
    assert "Audits" not in client.get(run.get_absolute_url()).content.decode()
    touched = [audit.sent.thumbnail_url for audit in of(run) if audit.sent]
    assert {client.get(url).status_code for url in touched} == {404}
    scored(run)
    assert {client.get(url).status_code for url in touched} == {200}
    page = client.get(run.get_absolute_url()).content.decode()
    assert "Marks kept" in page
    for audit in of(run):
        assert audit.sent is not None
        assert audit.answer is not None
        assert audit.sent.thumbnail_url in page
        assert audit.answer.thumbnail_url in page
    model = client.get(run.editing_model.get_absolute_url()).content.decode()
    assert "Audit marks kept" in model
    assert "1 run of this model" in model


def test_scoring_again_measures_the_audits_again_without_new_calls(
    server: EditingServer,
) -> None:
    run = scored(played(start(server)))
    before = [audit.finding for audit in of(run)]
    jobs.score_again(run)
    scored(run)
    assert [audit.finding for audit in of(run)] == before
    assert len(server.calls) == EDITS + CHAINS


# Cold audits.


def local_pair() -> EditPair:
    return catalog.suite("smoke").pair_by_slug["red-ball"]


def edits_of(editor: Editor) -> Callable[[bytes, str, int], bytes]:
    """An endpoint that answers with this editor."""

    def edit(image: bytes, prompt: str, seed: int) -> bytes:
        return editor.edit(EncodedImage.from_bytes(image), prompt, seed).image.png()

    return edit


@pytest.fixture
def lpips(settings: Any) -> None:
    settings.METRICS = ["psnr", "lpips"]
    if reasons := Scorer(["lpips"]).not_run:
        pytest.skip(str(reasons))


@pytest.mark.both_databases
def test_no_source_is_sent_before_its_cold_audit(
    server: EditingServer, lpips: None, tmp_path: Path, client: Any
) -> None:
    server.edit = edits_of(load_editor("noise"))
    suite = factories.tiny_suite(4, (factories.FLIP, local_pair()), trips=TRIPS)
    run = jobs.start(served(server, max_in_flight=4), suite)
    cold = [audit for audit in of(run) if audit.kind == "cold"]
    assert [audit.number for audit in cold] == [0] * 4
    assert run.progress.edits_total == EDITS + CHAINS + 4
    run = played(run)
    for audit in cold:
        mine = run.ledger.filter(chain__case__image=audit.chain.case.image)
        first = mine.order_by("pk").first()
        assert first is not None
        assert (first.chain_id, first.number, first.direction) == (audit.chain_id, 0, "audit")
        second = mine.order_by("pk")[1]
        assert second.started_at.timestamp() >= first.started_at.timestamp() + first.seconds
    run = scored(run)
    assert run.review.flags == []
    assert run.review.cold_gap is not None
    assert run.review.cold_gap < 0.02
    page = client.get(run.get_absolute_url()).content.decode() if run.published else ""
    assert not page or "Cold gap" in page
    assert differing(bundle_of(run, tmp_path)) == set()

    def kinder(document: dict[str, Any]) -> None:
        row = next(row for row in document["audits"] if row["kind"] == "cold")
        row["finding"]["loss"] -= 0.5

    def warmer(document: dict[str, Any]) -> None:
        document["audits"] = [row for row in document["audits"] if row["kind"] != "cold"]

    for change, wanted in ((kinder, ", finding"), (warmer, "run, planned audits")):
        found = differing(altered(bundle_of(run, tmp_path), change, sealed=True))
        assert any(line.endswith(wanted) for line in found), (wanted, found)
    with bundles.read(bundle_of(run, tmp_path)) as bundle:
        made = import_bundle(bundle, model_slug="elsewhere")
    assert made.run.review.cold_gap == run.review.cold_gap


def test_a_model_with_a_memory_is_flagged_for_review_without_a_hint_by_a_person(
    server: EditingServer, lpips: None, client: Any, valkey: Any
) -> None:
    """The model passes marks and harmless alterations, and stores everything for ever."""
    server.edit = edits_of(CopiesTouches())
    suite = factories.tiny_suite(6, (local_pair(),), trips=TRIPS, size=128)
    fields = form_fields(suite, endpoint_url=server.url, contract="huggingface")
    assert client.post(reverse("submit"), fields).status_code == 302
    submission = Submission.objects.get()
    jobs.probe(submission.pk)
    submission.refresh_from_db()
    assert submission.state == Submission.State.REVIEW, submission.probe
    run = workflow.approve(submission, suite=suite, budget_calls=None, budget_usd=None, by=None)
    run = scored(played(run))
    assert (run.state, run.complete) == (RunState.FINISHED, True)
    review = run.review
    assert (review.marks_kept or 0) > 0.5
    assert (review.loss_under_audit or 0) < 0.3
    assert (review.cold_gap or 0) > 0.02
    assert len(review.flags) == 1
    assert "new to the model" in review.flags[0]["text"]
    assert not run.is_ranked
    standing = run.standings.filter(metric__name="lpips", scope="all", threshold=0.5).first()
    assert standing is None or standing.usable_trips == TRIPS


# Bundles.


def differing(path: Path) -> set[str]:
    with bundles.read(path) as bundle:
        return {f"{c.line}, {c.what}" for c in verify(bundle) if c.verdict == DIFFERENT}


def test_a_bundle_has_the_audits_and_can_be_verified(server: EditingServer, tmp_path: Path) -> None:
    run = scored(played(start(server)))
    with bundles.read(bundle_of(run, tmp_path)) as bundle:
        checks = list(verify(bundle))
        assert len(bundle.document.audits) == CHAINS
        assert bundle.document.run.marks_kept == run.review.marks_kept
    assert [str(c) for c in checks if c.verdict in (DIFFERENT, NOT_CHECKED)] == []
    of_audits = {c.what for c in checks if c.line.startswith("audit of")}
    looked_at = {"digest", "place and seed", "hash", "sent image", "alteration", "finding"}
    assert looked_at <= of_audits
    with bundles.read(bundle_of(run, tmp_path, images=False)) as bundle:
        reasons = {c.detail for c in verify(bundle) if c.verdict == NOT_CHECKED}
    assert reasons == {"no images in the bundle"}

    def first_mark(document: dict[str, Any]) -> dict[str, Any]:
        return next(row for row in document["audits"] if row["kind"] == "mark")

    def better(document: dict[str, Any]) -> None:
        first_mark(document)["finding"]["kept"] = 3.0

    def other_seed(document: dict[str, Any]) -> None:
        first_mark(document)["seed"] += 1

    def other_touch(document: dict[str, Any]) -> None:
        rows = document["audits"]
        rows[0]["sent"], rows[1]["sent"] = rows[1]["sent"], rows[0]["sent"]

    def fewer(document: dict[str, Any]) -> None:
        document["audits"].remove(first_mark(document))

    def cleaner(document: dict[str, Any]) -> None:
        document["run"]["marks_kept"] = 0.2

    def accused(document: dict[str, Any]) -> None:
        document["run"]["flags"] = [{"kind": "review", "text": "it cheats"}]

    path = bundle_of(run, tmp_path)
    for change, wanted in (
        (better, ", finding"),
        (other_seed, ", place and seed"),
        (other_touch, ", sent image"),
        (fewer, "run, planned audits"),
        (cleaner, "run, marks kept"),
        (accused, "run, reasons for review"),
    ):
        found = differing(altered(path, change, sealed=True))
        assert any(line.endswith(wanted) for line in found), (wanted, found)
    Run.objects.filter(pk=run.pk).update(secret="5" * 64)  # as if it had been another run's
    found = differing(bundle_of(Run.objects.get(pk=run.pk), tmp_path))
    assert {"run, secret", "run, planned audits"} <= found


def test_an_imported_run_has_its_audits(server: EditingServer, tmp_path: Path, client: Any) -> None:
    run = scored(played(start(server)))
    with bundles.read(bundle_of(run, tmp_path)) as bundle:
        made = import_bundle(bundle, model_slug="elsewhere")
    assert made.run.verified
    theirs, ours = ([(a.number, a.kind, a.finding, a.answer_id) for a in of(r)] for r in (run, made.run))  # fmt: skip
    place = itemgetter(0, 1, 3)
    assert sorted(theirs, key=place) == sorted(ours, key=place)
    assert made.run.review.marks_kept == run.review.marks_kept
    assert "Marks kept" in client.get(made.run.get_absolute_url()).content.decode()


# Played again.


def cut(run: Run, trips: int) -> Chain:
    """Return a chain of the run that failed after so many trips."""
    chain = run.chains.select_related("case").first()
    assert chain is not None
    Trip.objects.filter(chain=chain, number__gt=trips).delete()
    Chain.objects.filter(pk=chain.pk).update(
        outcome=Outcome.FAILED, trips_played=trips, trips_scored=trips
    )
    return chain


def test_chains_played_after_the_secret_is_public_use_a_new_secret(
    server: EditingServer, tmp_path: Path, client: Any
) -> None:
    run = scored(played(start(server)))
    published, seeds = run.published_secret, {call.seed for call in server.calls}
    chain = cut(run, 1)
    before = len(server.calls)
    assert jobs.play_again(run) == 1
    run.refresh_from_db()
    assert run.published_secret is None
    assert run.earlier_secrets == [published]
    assert run.secret != published
    assert set(chain.audits.values_list("outcome", flat=True)) == {""}
    assert run.progress.edits_total == EDITS + CHAINS  # a small suite is audited whole, again
    scored(played(run))
    assert run.state == RunState.FINISHED
    again = server.calls[before:]
    assert len(again) == 5  # two trips and an audit
    assert not seeds & {call.seed for call in again}
    assert run.review.flags == []
    assert differing(bundle_of(run, tmp_path)) == set()
    jobs.score_again(run)  # the audits of both secrets are measured again
    scored(run)
    assert run.review.marks_kept == pytest.approx(1, abs=0.1)
    Run.objects.filter(pk=run.pk).update(published=True)
    page = client.get(run.editing_model.get_absolute_url()).content.decode()
    assert str(published) in page
    assert run.secret in page


def test_an_audit_of_a_deleted_answer_is_made_again(server: EditingServer) -> None:
    run = played(start(server))
    secret, chain = run.secret, cut(run, 1)
    (audit,) = chain.audits.all()
    assert audit.outcome == Audit.Outcome.ANSWERED
    jobs.play_again(run)
    audit.refresh_from_db()
    assert (audit.outcome, audit.sent, audit.answer, audit.seed) == ("", None, None, None)
    played(run)
    audit.refresh_from_db()
    assert audit.outcome == Audit.Outcome.ANSWERED
    assert run.secret == secret  # it is not public yet
