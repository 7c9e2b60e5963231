"""The steps after scoring, apart from those that whole runs prove."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from evaluation.content.suites import Case
from evaluation.play.finish import step_reader
from evaluation.play.run_folder import chain_slug


def test_an_image_is_read_only_from_a_chain_that_exists_and_a_trip_that_is_scored():
    case = Case("image", "pair")
    chain = SimpleNamespace(slug=chain_slug(case.slug, 0), scored=1)
    store: Any = SimpleNamespace(chains=lambda: [chain], answer=lambda *place: place[1:])
    read = step_reader(store)
    assert read(case, 0, 1, 2) == (1, 1)
    assert read(case, 0, 2, 1) is None
    assert read(Case("other", "pair"), 0, 1, 1) is None
