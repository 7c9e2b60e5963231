"""The page of a model."""

from __future__ import annotations

import pytest
from django.urls import reverse

from evaluation.metrics import HEADLINE
from leaderboard import jobs
from leaderboard.models import Run, Standing, Submission, Suite
from leaderboard.pages import model_page, strips
from leaderboard.pages.model_page import count_attempts, open_against_sealed
from leaderboard.testing import factories
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.testing.played import once, play

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]
HOSTILE = '<img src=x onerror=alert(1)>"&\u202e'
SCOPES = ("all", "category:geometry", "category:accessories", "kind:face", "pair:hat")


@pytest.fixture(scope="module")
def played(django_db_setup, django_db_blocker):
    suite = {"images": 6, "trips": 6, "slug": "shared"}
    yield from once(
        django_db_blocker, lambda: play("noise", factories.tiny_suite(**suite), name="Noise").pk
    )


def page_of(client, model, query=""):
    response = client.get(reverse("model", args=[model.slug]) + query)
    assert response.status_code == 200
    return response.content.decode()


def test_a_played_model_shows_all_that_was_measured(client, played):
    run = Run.objects.get(pk=played)
    page = page_of(client, run.editing_model)
    standing = run.standings.get(scope="all", threshold=0.5, metric__name="ssim")
    assert "Noise" in page
    assert "CLIP similarity" in page
    assert "not run" in page
    for heading in (
        "Damage over trips",
        "By every metric",
        "By kind of edit and kind of image",
        "Where images fail first",
        "Where images last longest",
        "Where chains end up",
        "How this was measured",
        "but not that it does",
        "Reproduce this run",
    ):
        assert heading in page, heading
    assert "convergebench run --editor noise --suite shared-v1.json" in page
    assert run.suite.content_hash[:12] in page
    worst = standing.details["worst"][0]["case"]
    assert reverse("run_case", args=[run.pk, worst]) in page


def test_the_page_stays_below_its_size_limit(client, played):
    run = Run.objects.get(pk=played)
    assert len(page_of(client, run.editing_model)) < 120_000


def test_the_most_important_suite_with_results_is_shown_first_and_others_can_be_chosen(client):
    model = make_model("Model")
    small = make_run(model, make_suite("small", trips=7), 3)
    make_run(model, make_suite("large", importance=9), 4)
    draft = make_suite("newest", importance=99)
    make_run(model, draft, state="playing", current=False, metrics=(), finished_at=None)
    page = page_of(client, model)
    assert "Usable trips (of 20)" in page
    chosen = page_of(client, model, "?suite=small-v1")
    assert "Usable trips (of 7)" in chosen
    assert str(small.pk) in chosen
    assert "Usable trips (of 20)" in page_of(client, model, "?suite=nonsense&metric=nonsense")


def test_another_metric_can_be_chosen(client):
    run = make_run("Model", make_suite(), metrics=("lpips", "ssim"), scopes=SCOPES)
    assert "Usable trips (of 20) by LPIPS" in page_of(client, run.editing_model)
    response = client.get(reverse("model", args=[run.editing_model.slug]) + "?metric=ssim")
    assert "Usable trips (of 20) by SSIM" in response.content.decode()
    assert response["X-Robots-Tag"] == "noindex"


def test_rank_and_its_interval_are_named(client):
    suite = make_suite()
    run = make_run("First", suite, 9, rank=1)
    make_run("Second", suite, 5, rank=2)
    assert "of 2, possible 1–2" in page_of(client, run.editing_model)


def test_a_half_life_that_was_not_reached_reads_as_more_than_n(client):
    run = make_run("Endless", make_suite(), 900)
    page = page_of(client, run.editing_model)
    assert "&gt;\u00a020" in page
    assert "Every image is still usable after 20 round trips." in page


def test_the_page_of_a_model_without_runs_states_that(client):
    page = page_of(client, make_model("Unplayed"))
    assert "No run yet" in page


@pytest.mark.parametrize("state", ["queued", "playing", "paused", "failed", "cancelled"])
def test_a_run_without_numbers_is_named_with_its_state(client, state):
    run = make_run("Model", make_suite(), state=state, current=False, metrics=(), complete=False)
    Standing.objects.all().delete()
    page = page_of(client, run.editing_model)
    assert run.get_state_display().lower() in page
    assert run.get_absolute_url() in page


def test_hidden_models_and_private_runs_are_visible_to_staff_only(client, admin_client):
    hidden = make_model("Hidden", status="hidden")
    address = reverse("model", args=[hidden.slug])
    assert client.get(address).status_code == 404
    assert admin_client.get(address).status_code == 200
    model = make_model("Model")
    run = make_run(model, make_suite(), published=False)
    assert "No run yet" in page_of(client, model)
    assert run.get_absolute_url() in page_of(admin_client, model)


def test_no_secret_and_no_server_path_is_shown(client):
    model = make_model("Keyed", options={"url": "https://secret.example"}, api_key="canary-key")
    run = make_run(model, make_suite())
    Run.objects.filter(pk=run.pk).update(
        metrics=run.metrics | {"clip": {"missing": "/root/.cache/clip.safetensors is missing"}}
    )
    page = page_of(client, model)
    assert "canary" not in page
    assert "secret.example" not in page
    assert "/root" not in page
    assert "not run: its weights or packages were not on the worker" in page


def test_the_page_states_that_only_its_owner_can_play_a_submitted_endpoint(client):
    run = make_run(make_model("Endpoint", access="endpoint"), make_suite())
    page = page_of(client, run.editing_model)
    assert "convergebench run" not in page
    assert "Only the owner of this endpoint" in page


# Sentences


def regimes(**counts):
    chains = sum(counts.values())
    return {"dynamics": {"chains": chains, "regimes": counts, "limit_retention": 0.41}}


def test_the_dynamics_read_as_a_sentence_with_the_final_retention():
    every = model_page.chain_dynamics(regimes(drifting=4))
    assert every["sentence"] == (
        "In every chain the image drifts: the trips change it as much as before, always in one "
        "direction. After the last trip, the median chain keeps 41\u00a0%."
    )
    most = model_page.chain_dynamics(regimes(contracting=3, wandering=1, undetermined=9))
    assert most["sentence"].startswith("In 3 of 13 chains the image settles: each trip")
    unknown = model_page.chain_dynamics(regimes(undetermined=9))
    assert unknown["sentence"].startswith("Where chains end up is unclear")
    still = {"dynamics": {"chains": 2, "regimes": {"idempotent": 2}, "contraction": 0.0}}
    assert model_page.chain_dynamics(still)["sentence"].startswith("Nothing changes")
    assert model_page.chain_dynamics({}) is None
    assert model_page.chain_dynamics({"dynamics": {"chains": 0, "regimes": {}}}) is None


def test_repeated_cases_separate_luck_from_the_choice_of_cases():
    details = {"repeats": {"rerun": 0.42, "case": 3.1, "repeats": 3}}
    assert "its usable trips vary by 0.4" in model_page.repeats_sentence(details)
    assert model_page.repeats_sentence({"repeats": None}) == ""
    assert model_page.repeats_sentence({}) == ""


@pytest.mark.parametrize("trips", [1, 2, 3, 5, 7, 10, 20, 60, 100])
def test_mini_strips_show_the_first_and_the_last_trip_and_at_most_five(trips):
    numbers = strips.short_numbers(trips)
    assert numbers[0] == 1
    assert numbers[-1] == trips
    assert len(numbers) <= 5
    assert numbers == sorted(set(numbers))


def model(slug: str, url: str = "", organisation: str = "") -> factories.EditingModel:
    options = {"url": url} if url else {}
    return factories.editing_model(slug, "endpoint", options=options, organisation=organisation)


def counts(tried: dict[str, int]) -> tuple[int, int, int]:
    return tried["model"], tried["address"], tried["organisation"]


def test_runs_of_a_model_an_address_and_an_organisation_are_counted(suite):
    one = model("one", "https://API.example.com/v1", "Example Labs")
    two = model("two", "https://api.example.com/v2")
    three = model("three", "https://other.example.org/v1", "example labs")
    for played, times in ((one, 2), (two, 3), (three, 1), (model("alone"), 1)):
        for _ in range(times):
            jobs.start(played, suite)
    assert counts(count_attempts(one, suite)["runs"]) == (2, 5, 3)
    Run.objects.filter(editing_model=two).update(source=Run.Source.EXTERNAL)
    assert counts(count_attempts(one, suite)["runs"]) == (2, 2, 3)


def test_submissions_are_counted_in_every_state(suite, client):
    one = model("one", "https://API.example.com/v1", "Example Labs")
    run = jobs.start(one, suite)
    assert counts(count_attempts(one, suite)["submissions"]) == (0, 0, 0)
    for name, address, who, state in (
        ("ONE", "https://api.example.com/v1", "Example Labs", "approved"),
        ("one", "https://api.example.com/v0", "", "withdrawn"),
        ("two", "https://api.example.com/v2", "", "rejected"),
        ("three", "https://other.example.org/v1", "example labs", "review"),
        ("four", "http://[", "", "review"),
    ):
        Submission.objects.create(
            name=name, endpoint_url=address, organisation=who, state=state, suite=suite,
            email="a@example.org", contract="cog",
        )  # fmt: skip
    assert counts(count_attempts(one, suite)["submissions"]) == (2, 3, 2)
    Run.objects.filter(pk=run.pk).update(published=True)
    page = client.get(one.get_absolute_url()).content.decode()
    assert "1 run of this model" in page
    assert "2 submissions of this model, 3 at its address" in page


def test_models_without_address_or_organisation_share_none(suite):
    alone, other = model("alone"), model("other")
    jobs.start(alone, suite)
    jobs.start(other, suite)
    assert counts(count_attempts(alone, suite)["runs"]) == (1, 0, 0)


def standing_on(sealed: bool, usable: float, low: float | None, high: float | None, pk: int):
    suite = Suite(slug="sealed" if sealed else "open", version=1, trips=10, sealed=sealed)
    run = Run(pk=pk, suite=suite, current=True)
    standing = Standing(usable_trips=usable, usable_trips_low=low, usable_trips_high=high)
    return run, {HEADLINE: standing}


@pytest.mark.parametrize(
    ("usable", "interval", "known"), [(9.0, (8.6, 9.4), True), (6.4, (6.0, 6.8), False)]
)
def test_an_easier_open_suite_is_reported_against_the_sealed_one(usable, interval, known):
    rows = [standing_on(False, usable, *interval, 1), standing_on(True, 6.0, 5.7, 6.3, 2)]
    found = open_against_sealed([run for run, _ in rows], {run.pk: s for run, s in rows})
    assert found is not None
    assert found["difference"] == pytest.approx((usable - 6) / 10)
    assert found["high"] - found["low"] == pytest.approx(2 * (0.4**2 + 0.3**2) ** 0.5 / 10)
    assert found["significant"] is known


def test_without_both_suites_or_without_intervals_there_is_no_comparison():
    one, other = standing_on(False, 9, 8, 9.5, 1), standing_on(True, 6, None, None, 2)
    assert open_against_sealed([one[0]], {1: one[1]}) is None
    assert open_against_sealed([one[0], other[0]], {1: one[1], 2: other[1]}) is None


@pytest.mark.parametrize(("half_life", "known"), [(15.0, True), (5.0, False)])
def test_the_models_page_compares_open_with_sealed_for_everyone(client, half_life, known):
    model = make_model("Learner")
    make_run(model, make_suite("open"), half_life)
    make_run(model, make_suite("shut", sealed=True), 5.0)
    page = client.get(model.get_absolute_url()).content.decode()
    assert "Open and sealed suite" in page
    low, high = (f"{share:.0%}".replace("%", "\u00a0%") for share in interval(half_life, 5.0))
    assert f"({low} to {high})".replace("-", "\u2212") in page
    assert ("the model may have seen the open suite before" in page) is known


def interval(opened: float, shut: float) -> tuple[float, float]:
    """Of the difference, in shares of 20 trips: the boards' intervals are .85 to 1.1 of usable."""
    width = ((0.125 * opened) ** 2 + (0.125 * shut) ** 2) ** 0.5
    return (opened - shut - width) / 20, (opened - shut + width) / 20
