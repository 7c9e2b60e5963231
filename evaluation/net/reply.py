"""What a server answered, whichever client asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reply:
    """A whole HTTP answer. Headers are looked up by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """The stated type without parameters, such as "image/png"; "" when there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()[:100]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")
