"""Embeds and cards for other sites: they show nothing that is not public."""

from __future__ import annotations

import io
import re

import pytest
from django.urls import reverse
from django.utils import timezone
from PIL import Image

from leaderboard import urls
from leaderboard.models import EditingModel, Run, RunReview
from leaderboard.testing.boards import make_model, make_run, make_suite
from leaderboard.testing.factories import FLIP, tiny_suite
from leaderboard.testing.played import play
from leaderboard.views import cards

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite():
    suite = make_suite(images=10, pairs=12)
    for place, half_life in enumerate((9, 4, 1)):
        make_run(f"Model {place}", suite, half_life, rank=place + 1, chains=True)
    return suite


def image(client, address):
    answer = client.get(address)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "image/png"
    image = Image.open(io.BytesIO(answer.content))
    assert image.size == (1200, 630)
    return answer.content


def board_image(client):
    return image(client, "/board.png")


def test_only_the_embeds_may_be_framed(client, suite):
    for pattern in urls.urlpatterns:
        if not pattern.name or pattern.pattern.converters or "(" in str(pattern.pattern):
            continue
        answer = client.get(reverse(pattern.name))
        if answer.status_code != 200:
            continue
        framed = "frame-ancestors *" in answer["Content-Security-Policy"]
        assert framed == pattern.name.startswith("embed_"), pattern.name
        assert framed == ("X-Frame-Options" not in answer), pattern.name


def test_a_cached_embed_may_still_be_framed(client, suite):
    for _ in range(2):
        answer = client.get("/embed/board/")
        assert "frame-ancestors *" in answer["Content-Security-Policy"]
        assert "X-Frame-Options" not in answer


def test_an_embed_follows_its_parameters_and_links_back_to_the_board(client, suite):
    page = client.get("/embed/board/?q=model+1").content.decode()
    assert "Model 1" in page
    assert "Model 0" not in page
    assert "q=model+1" in page
    assert "<form" not in page
    for query in ("", "?chart=value", "?chart=nonsense", "?suite=none"):
        assert client.get(f"/embed/chart/{query}").status_code == 200


def test_an_embed_marks_models_that_are_not_ranked(client, suite):
    assert "not ranked" not in client.get("/embed/board/").content.decode()
    RunReview.objects.update(flags=[{"kind": "review", "text": "marks were lost"}])
    EditingModel.objects.first().save()
    assert "; not ranked" in client.get("/embed/board/").content.decode()


def test_pages_name_the_card_with_their_finding(client, suite):
    case = suite.cases.first()
    for page, card in (
        ("/models/model-0/", "/models/model-0/card.png?suite=demo-v1"),
        (case.get_absolute_url(), f"/cases/{case.pk}/card.png"),
        ("/compare/?models=model-0,model-2", "/compare/card.png?models=model-0,model-2"),
        ("/", "/board.png"),
    ):
        html = client.get(page).content.decode().replace("&amp;", "&")
        found = re.search(r'property="og:image"\s+content="[^"/]+//[^"/]+([^"]+)"', html)
        assert found, page
        assert found[1].startswith(card)
        image(client, found[1])


def test_cards_with_different_content_differ(client, suite):
    cards = {image(client, f"/models/model-{n}/card.png") for n in range(3)}
    cards.add(image(client, "/compare/card.png?models=model-0,model-1"))
    cards.add(image(client, "/compare/card.png?models=model-0,model-2"))
    assert len(cards) == 5


def test_a_card_fits_long_and_foreign_names(client, suite):
    make_run(make_model("模型 " * 30, slug="m"), suite, 0)
    make_model("Never played", slug="never")
    image(client, "/models/m/card.png?suite=nonsense")
    image(client, "/models/never/card.png")


def test_a_case_card_shows_its_images(client):
    run = play("jpeg", tiny_suite(pairs=(FLIP,)))
    case = run.suite.cases.first()
    with_images = image(client, f"/cases/{case.pk}/card.png")
    Run.objects.update(published=False)
    assert image(client, f"/cases/{case.pk}/card.png") != with_images


@pytest.mark.parametrize(
    "models", ["", "model-0", "model-0,model-0", "model-0,nobody", "hidden,model-0"]
)
def test_an_invalid_comparison_has_no_card(client, suite, models):
    make_run(make_model("Hidden", status=EditingModel.Status.HIDDEN), suite, 5)
    assert client.get("/compare/card.png", {"models": models}).status_code == 404
    assert client.get("/models/hidden/card.png").status_code == 404
    assert client.get("/compare/card.png?models=model-0,model-1&suite=x").status_code == 404


def test_the_image_shows_bars_and_fits_long_and_foreign_names(client):
    suite = make_suite(images=2)
    empty = board_image(client)
    make_run(make_model("W" * 120, slug="w"), suite, 4, rank=1)
    make_run(make_model("模型 <b>", slug="m"), suite, 1e6, rank=2)
    make_run("Zero", suite, 0)
    full = board_image(client)
    assert full != empty
    assert len(full) < 60_000


def test_with_reference_editors_alone_the_image_shows_them(client):
    suite = make_suite(images=2)
    before = board_image(client)
    make_run(make_model("Oracle", is_reference=True), suite)
    assert board_image(client) != before


@pytest.mark.parametrize("letter", "σΩжéñ≥−→…“ő")
def test_the_font_of_cards_has_the_signs_of_names_and_numbers(letter):
    assert bytes(cards.font_of(26).getmask(letter)) != bytes(cards.font_of(26).getmask("\uffff"))


@pytest.fixture
def written(monkeypatch) -> list[str]:
    """The texts that cards write."""
    texts: list[str] = []
    text = cards.Pen.text

    def noted(self, x, y, words, *more, **named):
        texts.append(words)
        text(self, x, y, words, *more, **named)

    monkeypatch.setattr(cards.Pen, "text", noted)
    return texts


def test_cards_have_axes_names_the_date_and_the_address(client, suite, written, settings):
    settings.SITE_URL = "https://board.example.org"
    day = f"{timezone.now():%B %Y}"
    image(client, "/board.png")
    assert {"0", "20"} <= set(written)
    assert day in written[-1]
    assert written[-1].endswith("board.example.org")
    written.clear()
    image(client, "/compare/card.png?models=model-0,model-1")
    for words in ("0\u00a0%", "50\u00a0%", "100\u00a0%", "20 round trips", "Model 0", "Model 1"):
        assert words in written
    assert "board.example.org" in written[-1]


def test_no_card_names_a_reference_editor_as_the_winner(client, written):
    suite = make_suite(images=10, pairs=12)
    for name, half_life in (("Oracle", 1e6), ("Noise σ 5", 3)):
        make_run(make_model(name, is_reference=True), suite, half_life, chains=True)
    image(client, "/board.png")
    assert cards.NO_MODEL in written
    image(client, "/compare/card.png?models=oracle,noise-5")
    image(client, f"/cases/{suite.cases.first().pk}/card.png")
    assert "Oracle (reference editor) and Noise σ 5 (reference editor)" in written
    assert not [words for words in written if "longest" in words or "longer" in words]
    assert not [words for words in written if "keeps the image for" in words]
