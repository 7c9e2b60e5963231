"""Backup and restore: everything is destroyed, and the same board is restored."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from evaluation.images import EncodedImage
from leaderboard import jobs
from leaderboard.models import EditingModel, Run, Score, Standing, StoredImage
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.played import play

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("quick_metrics"),
    pytest.mark.both_databases,
]


def everything() -> dict[str, Any]:
    """Return what must be restored: all standings, scores and pixels."""
    names = [field.name for field in Standing._meta.concrete_fields]
    rows = StoredImage.objects.order_by("pk")
    return {
        "standings": json.loads(
            json.dumps(list(Standing.all_versions.order_by("pk").values(*names)), default=str)
        ),
        "scores": list(Score.objects.order_by("pk").values_list("trip", "metric", "distance")),
        "images": {row.pk: row.read().decoded.tobytes() for row in rows},
        "keys": [model.api_key.reveal() for model in EditingModel.objects.order_by("pk")],
    }


def destroy() -> None:
    for row in StoredImage.objects.all():
        for name in (row.name, row.copy_name, row.thumbnail_name):
            default_storage.delete(name)
    call_command("flush", interactive=False, verbosity=0)


def test_a_restore_on_an_empty_machine_gives_the_same_board(tmp_path: Path, client: Client):
    run = play("noise", factories.tiny_suite(1), published=True)
    EditingModel.objects.filter(pk=run.editing_model_id).update(api_key="a key")
    board = f"/api/v1/runs/{run.pk}"
    before, shown = everything(), client.get(board).json()
    out, kept = tmp_path / "monday", tmp_path / "images"
    call_command("backup", out, images=kept, stdout=StringIO())
    assert b"a key" not in (out / "backup.json").read_bytes()

    destroy()
    assert not Standing.all_versions.exists()
    with pytest.raises(CommandError, match="images are missing"):
        call_command("restore", out, stdout=StringIO())
    said = StringIO()
    call_command("restore", out, images=kept, force=True, stdout=said)
    assert everything() == before
    assert not list(Path(settings.DATA_DIR).glob("before-restore-*"))
    assert client.get(board).json() == shown
    assert "copied now" in said.getvalue()
    call_command("storage", "verify", stdout=StringIO())
    call_command("storage", "usage", stdout=said)
    for words in ("all images", f"run {run.pk}: {run}"):
        assert words in said.getvalue()

    # It lives: new rows do not meet old keys, and the run can be scored again.
    factories.editing_model("newcomer")
    jobs.score_again(Run.objects.get(pk=run.pk))
    jobs.score(run.pk)
    assert Run.objects.get(pk=run.pk).state == RunState.FINISHED


def test_a_second_backup_copies_only_what_is_new(tmp_path: Path):
    for number in range(2):
        StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(number)))
    kept, said = tmp_path / "images", StringIO()
    call_command("backup", tmp_path / "a", images=kept, stdout=said)
    StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(7)))
    call_command("backup", tmp_path / "b", images=kept, stdout=said)
    assert "2 of them copied" in said.getvalue()
    assert "1 of them copied" in said.getvalue()
    with pytest.raises(CommandError, match="is not empty"):
        call_command("backup", tmp_path / "a")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("dump", "was altered"),
        ("unfinished", "not a complete backup"),
        ("others", "backup of"),
        ("newer", r"contains the migration leaderboard\.9000_later, which this site"),
        ("unnamed", "not a complete backup"),
        ("not_empty", "not empty"),
        ("image", "missing"),
    ],
)
def test_an_incomplete_backup_replaces_nothing(tmp_path: Path, change: str, match: str):
    StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(1)))
    out, kept = tmp_path / "backup", tmp_path / "images"
    call_command("backup", out, images=kept, stdout=StringIO())
    about = out / "backup.json"
    dump = next(path for path in out.iterdir() if path.name.startswith("database."))
    if change == "dump":
        dump.write_bytes(dump.read_bytes()[:-1] + b"x")
    elif change == "unfinished":
        about.unlink()
    elif change == "others":
        about.write_text(about.read_text().replace(f'"{connection.vendor}"', '"oracle"'))
    elif change == "newer":
        stated = json.loads(about.read_text())
        stated["migrations"].append(["leaderboard", "9000_later"])
        about.write_text(json.dumps(stated))
    elif change == "unnamed":
        about.write_text("[]")
    elif change == "image":
        row = StoredImage.objects.get()
        (kept / row.name).write_bytes(b"another image")
        default_storage.delete(row.name)
    with pytest.raises(CommandError, match=match):
        call_command("restore", out, images=kept, force=change != "not_empty", stdout=StringIO())
    assert StoredImage.objects.count() == 1


def test_the_previous_database_is_restored_if_the_new_one_cannot_be_read(tmp_path: Path):
    """Its migrations have this version's names, but a column has another name."""
    table = EditingModel._meta.db_table

    def rename(old: str, new: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER TABLE {table} RENAME COLUMN "{old}" TO "{new}"')

    StoredImage.objects.get_or_store(EncodedImage.from_image(factories.drawn_image(1)))
    rename("homepage", "web_page")
    call_command("backup", tmp_path / "backup", stdout=StringIO())
    rename("web_page", "homepage")
    factories.editing_model("newcomer")
    with pytest.raises(
        CommandError, match=r"(?s)cannot use .*homepage.*is restored, and also saved in (.*)\Z"
    ):
        call_command("restore", tmp_path / "backup", force=True, stdout=StringIO())
    assert EditingModel.objects.get().slug == "newcomer"
    (before,) = Path(settings.DATA_DIR).glob("before-restore-*")
    shutil.rmtree(before)
