"""Models that a key or weights make playable are offered with the price of a run."""

from __future__ import annotations

import math

import pytest
from django.urls import reverse

from evaluation.audits.plan import LEAST, audit_count
from evaluation.content import catalog
from leaderboard import jobs
from leaderboard.models import EditingModel, Run
from leaderboard.operation import playable
from leaderboard.testing.factories import editing_model, tiny_suite

pytestmark = pytest.mark.django_db
PAGE = "admin:index"


@pytest.fixture(autouse=True)
def models(monkeypatch):
    """Create two hosted models with a price, one without, and one without its weights."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "BFL_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(playable, "GPUS", ())
    for slug, editor, price, options in (
        ("dear", "gemini", "0.5", {"model": "gemini-3-pro-image"}),
        ("unpriced", "gemini", None, {"model": "gemini-x-image"}),
        ("cheap", "gemini", "0.039", {"model": "gemini-2.5-flash-image"}),
        ("other", "bfl", "0.01", {"model": "flux-2-pro"}),
    ):
        editing_model(slug, editor, access="api", price_per_edit=price, options=options)
    weights = {"pipeline": "OmniGenPipeline", "checkpoint": "nobody/no-such-weights"}
    editing_model("weights", "diffusers", access="local", options=weights)


def test_without_a_key_nothing_is_offered(admin_client):
    tiny_suite(slug="lite")
    assert playable.offers() == [] == playable.advice()
    assert "No unplayed model has its key" in admin_client.get(reverse(PAGE)).content.decode()


def test_with_a_key_its_models_are_offered_with_their_price(admin_client, monkeypatch):
    suite = tiny_suite(slug="lite")
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    assert [offer.model.slug for offer in playable.offers()] == ["cheap", "dear", "unpriced"]
    page = admin_client.get(reverse(PAGE)).content.decode()
    cheap = EditingModel.objects.get(slug="cheap")
    assert "Play Cheap on Lite" in page
    assert str(cheap.estimate_on(suite)) in page
    assert "Play Other" not in page
    form = {"editing_model": cheap.pk, "suite": suite.pk}
    asked = admin_client.post(reverse("admin:leaderboard_run_add"), form).content.decode()
    assert "Nothing has been started yet" in asked
    assert not Run.objects.exists()


def test_a_played_model_is_offered_again_only_if_its_run_failed(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    run = jobs.start(EditingModel.objects.get(slug="cheap"), tiny_suite(slug="lite"))
    assert "cheap" not in [offer.model.slug for offer in playable.offers()]
    jobs.cancel(run)
    assert "cheap" in [offer.model.slug for offer in playable.offers()]


def test_nothing_is_offered_if_all_models_were_played(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    EditingModel.objects.exclude(slug="cheap").delete()
    jobs.start(EditingModel.objects.get(), tiny_suite(slug="lite"))
    assert playable.offers() == []


def test_up_prints_the_playable_models_and_the_command_with_a_budget(monkeypatch, settings):
    settings.AUDITS = LEAST
    monkeypatch.setenv("GEMINI_API_KEY", "a-key")
    names, command, estimate = playable.advice()
    assert "Cheap, Dear and Unpriced" in names
    edits = catalog.suite("lite").edits + audit_count(catalog.suite("lite"))
    assert f"start_run cheap --suite lite --budget-usd {math.ceil(edits * 0.0429)}" in command
    assert f"{edits:,} edits, about ${edits * 0.039:,.2f}" in estimate


def test_up_prints_how_to_get_weights_for_a_gpu(monkeypatch):
    monkeypatch.setattr(playable, "GPUS", ("/dev/null",))
    assert "hf download nobody/no-such-weights" in playable.advice()[-1]
