"""Local servers that imitate each hosted provider's wire format."""

from collections.abc import Callable
from typing import Any

from evaluation.editors import Editor
from evaluation.errors import Fault
from evaluation.testing.fake_providers.inline import FakeArk, FakeDashScope, FakeGemini, FakeOpenAI
from evaluation.testing.fake_providers.queued import FakeBFL, FakeFal, FakeReplicate
from evaluation.testing.fake_providers.server import KEY, FakeProvider, by_editor

__all__ = ["FAKES", "KEY", "PROMPT", "SIZE", "FakeProvider", "Load", "by_editor", "fails"]

#: The prompt of the tests, and the size of their image.
PROMPT = "Add a red hat. Größe «1»"
SIZE = (64, 48)
#: A function that makes the editor of a fake provider, with options.
Load = Callable[..., Editor]

#: The fake provider of each hosted editor, by the editor's name.
FAKES: dict[str, type[FakeProvider]] = {
    fake.name: fake
    for fake in (
        FakeGemini,
        FakeOpenAI,
        FakeBFL,
        FakeDashScope,
        FakeArk,
        FakeFal,
        FakeReplicate,
    )
}


def fails(fault: Fault, *, permanent: bool = False, retry_after: float | None = None) -> Any:
    return fault, permanent, retry_after
