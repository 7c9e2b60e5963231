"""What the papers asked: every item is answered, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands

from evaluation.__main__ import main
from evaluation.content import catalog
from leaderboard.pages.explore import questions
from leaderboard.testing.boards import make_suite

ROWS = yaml.safe_load((catalog.folder() / "papers/questions.yaml").read_text())
WHERE = sorted({where for row in ROWS for item in row["items"] for where in item["where"]})


def test_every_item_has_an_answer_and_what_is_built_says_where():
    assert len(questions.documents()) == 4
    for document in questions.documents():
        for item in document.items:
            assert item.kind_words
            assert item.built_words
            assert len(item.answer) > 15, item.asked
            assert item.where or item.built == "no", item.asked


@pytest.mark.django_db
def test_the_page_shows_them_all(client):
    page = client.get("/questions/")
    assert page.status_code == 200
    text = page.content.decode()
    assert text.count('<th scope="row">') == sum(len(d.items) for d in questions.documents())


@pytest.mark.django_db
@pytest.mark.parametrize("where", [one for one in WHERE if ":" not in one])
def test_every_page_is_there_with_its_part(client, where):
    if where.startswith("suites/"):
        slug = where.removeprefix("suites/")
        assert slug in {suite.slug for suite in catalog.suites()}
        make_suite(slug)
    url, _, part = questions.place(where).url.partition("#")
    page = client.get(url, follow=True)
    assert page.status_code == 200
    if part:
        assert re.search(rf'id="{part}"', page.content.decode()), where


@pytest.mark.parametrize("where", [one for one in WHERE if ":" in one])
def test_every_command_and_file_is_there(where, capsys):
    kind, _, name = where.partition(":")
    if kind == "command":
        assert name in get_commands()
    elif kind == "file":
        assert (Path(settings.BASE_DIR) / name).is_file()
    else:
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
