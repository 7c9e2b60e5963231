"""Caches limited in bytes, and a serializer that cannot carry code."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from typing import Any

from django.core.cache.backends.locmem import LocMemCache

#: Limit of all cached pages in one web process.
MAX_BYTES = 24 * 2**20


class SizedCache(LocMemCache):
    """Django's cache in memory with a limit on bytes as well as on entries."""

    _cache: OrderedDict[str, bytes]
    _expire_info: dict[str, float | None]

    def _set(self, key: str, value: bytes, *options: Any) -> None:
        if len(value) > MAX_BYTES // 8:
            self._cache.pop(key, None)
            self._expire_info.pop(key, None)
            return
        super()._set(key, value, *options)  # type: ignore[misc]
        held = sum(len(content) for content in self._cache.values())  # of a few hundred
        while held > MAX_BYTES:
            oldest, content = self._cache.popitem()
            self._expire_info.pop(oldest, None)
            held -= len(content)


class PlainSerializer:
    """JSON in a shared cache: a writer to Redis must not run code here."""

    def dumps(self, value: Any) -> bytes | int:
        # Numbers are not encoded: Redis increments them itself.
        if type(value) is int:
            return value
        return json.dumps(value, default=_packed).encode()

    def loads(self, data: bytes) -> Any:
        try:
            return int(data)
        except ValueError:
            return json.loads(data, object_hook=_unpacked)


def _packed(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} is not kept in a shared cache")


def _unpacked(found: dict[str, Any]) -> Any:
    return base64.b64decode(found["bytes"]) if found.keys() == {"bytes"} else found
