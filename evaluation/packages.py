"""Versions of the installed packages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache
def package_version(name: str) -> str:
    """Return the version of an installed package, or ""."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the named packages; leave out packages that are not installed."""
    return {name: package_version(name) for name in names if package_version(name)}
