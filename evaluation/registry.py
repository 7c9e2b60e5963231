"""Registries: classes by name, imported on first use."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Registry(dict[str, str], Generic[T]):
    """Paths of classes ("package.module:Class") by name, in the order of listings.

    `kind` is the noun for an entry in messages. `error` makes the exception for an unknown name.
    """

    def __init__(
        self, kind: str, error: Callable[[str], Exception], paths: Mapping[str, str]
    ) -> None:
        super().__init__(paths)
        self.kind = kind
        self.error = error

    def find(self, name: str) -> type[T]:
        """Return the class of this name. Raises `error`, listing the known names."""
        if name not in self:
            raise self.error(
                f"there is no {self.kind} called {name!r}; known are {', '.join(self)}"
            )
        return _resolve(self[name])

    def load(self, name: str, **options: Any) -> T:
        """Return an instance of the class of this name, made with these options."""
        return self.find(name)(**options)

    def classes(self) -> dict[str, type[T]]:
        """Import all classes; return them by name."""
        return {name: self.find(name) for name in self}


@cache
def _resolve(path: str) -> Any:
    return pkgutil.resolve_name(path)
