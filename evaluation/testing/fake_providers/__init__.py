"""Local servers that speak each hosted provider's wire format."""

from evaluation.testing.fake_providers.inline import FakeArk, FakeDashScope, FakeGemini, FakeOpenAI
from evaluation.testing.fake_providers.queued import FakeBFL, FakeFal, FakeReplicate
from evaluation.testing.fake_providers.server import KEY, FakeProvider, by_editor

__all__ = ["FAKES", "KEY", "FakeProvider", "by_editor"]

#: The fake of each hosted editor, by the editor's name.
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
