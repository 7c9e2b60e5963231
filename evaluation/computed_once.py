"""`functools.cached_property` without its lock.

Python 3.11 holds one lock for a property of all instances while it computes one of them: threads
that decode or hash pictures would wait for each other. 3.12 has none either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class computed_once(Generic[Value]):  # noqa: N801 -- a decorator
    """A property that is kept in the instance; two threads may both compute it."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Value: ...

    def __get__(self, instance: object | None, owner: type[Any]) -> Self | Value:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
