"""Fixtures: every hosted editor with a local server that imitates its provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evaluation.editors import Editor, load_editor
from evaluation.images import EncodedImage
from evaluation.testing.fake_providers import FAKES, SIZE, FakeProvider, Load


@pytest.fixture(params=sorted(FAKES))
def fake(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    with FAKES[request.param]() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def load(fake: FakeProvider) -> Iterator[Load]:
    loaded = []

    def make(**options: Any) -> Editor:
        loaded.append(load_editor(fake.name, **{**fake.options, **options}))
        return loaded[-1]

    yield make
    for editor in loaded:
        editor.close()


@pytest.fixture(scope="module")
def image() -> EncodedImage:
    noise = np.random.default_rng(5).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    return EncodedImage.from_image(Image.fromarray(noise))
