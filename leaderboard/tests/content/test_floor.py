"""A model's page shows the floor set by its autoencoder; the board does not."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from evaluation.arms import FLOOR
from leaderboard import jobs
from leaderboard.models import EditingModel, Run
from leaderboard.testing.factories import tiny_suite
from leaderboard.testing.played import QUICK, play

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(not find_spec("diffusers"), reason="needs the worker extra"),
]


def test_the_floor_is_played_by_workers_shown_on_the_page_and_never_ranked(
    client: Client, settings: Any
) -> None:
    settings.METRICS, settings.PUBLISH_AT_ONCE = QUICK, True
    suite = tiny_suite(images=1, trips=2)
    own = play("latent", suite, name="Small autoencoder", access="local")
    assert "floor" not in client.get(own.editing_model.get_absolute_url()).content.decode()
    call_command("start_run", "latent", suite=suite.key, floor=True, verbosity=0)
    floor = Run.objects.latest("pk")
    assert floor.arm == FLOOR.to_dict()
    jobs.play(floor.pk)
    jobs.score(floor.pk)
    floor.refresh_from_db()
    own.refresh_from_db()
    assert (floor.state, floor.current, own.current) == ("finished", False, True)
    page = client.get(own.editing_model.get_absolute_url()).content.decode()
    assert "Without any edit: the autoencoder of Small autoencoder alone" in page
    assert "The model’s autoencoder alone, without any edit, keeps an image usable for" in page
    assert floor.get_absolute_url() in page
    assert not floor.standings.filter(rank__isnull=False).exists()


def test_a_model_without_an_autoencoder_has_no_floor() -> None:
    suite = tiny_suite()
    EditingModel.objects.create(slug="jpeg", name="JPEG", editor="jpeg")
    with pytest.raises(CommandError, match="JPEG has no floor: Jpeg has no autoencoder"):
        call_command("start_run", "jpeg", suite=suite.key, floor=True)
    assert not Run.objects.exists()
