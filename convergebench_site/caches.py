"""A memory cache with a limit in bytes, and a cache serializer that cannot run code."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from typing import Any

from django.core.cache.backends.locmem import LocMemCache

#: Limit for all cached pages of a web process.
MAX_BYTES = 24 * 2**20


class SizedCache(LocMemCache):
    """Django's memory cache, limited not only in entries but also in bytes."""

    _cache: OrderedDict[str, bytes]
    _expire_info: dict[str, float | None]

    def _set(self, key: str, value: bytes, *options: Any) -> None:
        if len(value) > MAX_BYTES // 8:
            self._cache.pop(key, None)
            self._expire_info.pop(key, None)
            return
        super()._set(key, value, *options)  # type: ignore[misc]
        total = sum(len(content) for content in self._cache.values())
        while total > MAX_BYTES:
            oldest, content = self._cache.popitem()
            self._expire_info.pop(oldest, None)
            total -= len(content)


class PlainSerializer:
    """JSON for a shared cache. Pickle would let anyone who can write to Redis run code here."""

    def dumps(self, value: Any) -> bytes | int:
        # Integers are stored plainly, because Redis increments them itself.
        if type(value) is int:
            return value
        return json.dumps(value, default=_encode_bytes).encode()

    def loads(self, data: bytes) -> Any:
        try:
            return int(data)
        except ValueError:
            return json.loads(data, object_hook=_decode_bytes)


def _encode_bytes(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} cannot be stored in a shared cache")


def _decode_bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["bytes"]) if value.keys() == {"bytes"} else value
