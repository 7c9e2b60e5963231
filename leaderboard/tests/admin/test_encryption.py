"""Secrets at rest: unreadable in the database, invisible everywhere else."""

from __future__ import annotations

import json
import threading

import pytest
from cryptography.fernet import Fernet
from django.core import serializers
from django.core.management import CommandError, call_command
from django.db import connection

from leaderboard.management.commands import rotate_keys
from leaderboard.models import EditingModel, encryption
from leaderboard.models.encryption import Unreadable

CANARY = "sk-canary-1234567890"
pytestmark = pytest.mark.django_db


@pytest.fixture
def row():
    return EditingModel.objects.create(slug="m", name="M", editor="noop", api_key=CANARY)


def stored() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT api_key FROM leaderboard_editingmodel")
        return cursor.fetchone()[0]


def test_the_database_holds_no_plain_text_and_the_row_gives_it_back(row):
    assert CANARY not in stored()
    assert EditingModel.objects.get().api_key.reveal() == CANARY


def test_a_secret_shows_in_no_repr_no_str_no_fixture_and_no_history(row):
    fresh = EditingModel.objects.get()
    assert CANARY not in f"{fresh.api_key!r} {fresh.api_key} {vars(fresh)}"
    assert CANARY not in serializers.serialize("json", [fresh])
    assert CANARY not in json.dumps([vars(h) for h in fresh.history.all()], default=str)


def test_saving_the_row_again_keeps_the_secret(row):
    fresh = EditingModel.objects.get()
    fresh.name = "Other"
    fresh.save()
    assert EditingModel.objects.get().api_key.reveal() == CANARY


def test_an_empty_secret_stays_empty():
    EditingModel.objects.create(slug="n", name="N", editor="noop")
    assert stored() == ""
    assert not EditingModel.objects.get().api_key


def test_with_the_wrong_key_it_fails_closed(row, settings):
    settings.FIELD_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(Unreadable, match="FIELD_KEYS"):
        EditingModel.objects.get().api_key.reveal()


def test_rotation_makes_the_old_key_unnecessary(row, settings):
    new = Fernet.generate_key().decode()
    settings.FIELD_KEYS = [new, *settings.FIELD_KEYS]
    call_command("rotate_keys")
    settings.FIELD_KEYS = [new]
    assert EditingModel.objects.get().api_key.reveal() == CANARY


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_key_that_is_set_during_a_rotation_is_kept(row, monkeypatch):
    def replaced() -> None:
        EditingModel.objects.update(api_key="sk-new")
        connection.close()

    submitter = threading.Thread(target=replaced)

    def rotate(token: str) -> str:
        submitter.start()
        submitter.join(1)  # it may have to wait until the rotation ends
        return encryption.rotate(token)

    monkeypatch.setattr(rotate_keys, "rotate", rotate)
    call_command("rotate_keys")
    submitter.join()
    assert EditingModel.objects.get().api_key.reveal() == "sk-new"


def test_rotation_without_the_old_key_changes_nothing_and_names_the_row(row, settings):
    before = stored()
    settings.FIELD_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match=f"editing model {row.pk}"):
        call_command("rotate_keys")
    assert stored() == before
