"""The secret of a run, and the random values that are drawn from it.

A run's secret is random. Its seeds, the order of its chains and its audits are drawn from it,
the same in the shell and on the site, so that no model can know them beforehand; it is
published when the run has ended, so that the draw can be repeated.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, TypeVar

import numpy as np

#: (trip number, step name) -> seed; the steps of a round trip are "forward" and "backward".
Seed: TypeAlias = Callable[[int, str], int | None]
SeedMode = Literal["per-edit", "fixed", "none"]
SEED_MODES: tuple[SeedMode, ...] = ("per-edit", "fixed", "none")
T = TypeVar("T")


def new_secret() -> str:
    """Return a secret for one run: 256 random bits, in hexadecimal digits."""
    return secrets.token_hex(32)


def commitment(secret: str) -> str:
    """Return the hash that may be published before the secret itself."""
    return hashlib.sha256(secret.encode()).hexdigest()


def drawn(secret: str, *names: object) -> bytes:
    """Return the 32 bytes that the secret draws for this name."""
    text = "/".join(str(name) for name in names)
    return hmac.digest(secret.encode(), text.encode(), "sha256")


def generator(secret: str, *names: object) -> np.random.Generator:
    """Return a random generator that the secret draws for this name."""
    return np.random.default_rng(int.from_bytes(drawn(secret, *names)))


def chain_seeds(secret: str, case: str, repeat: int, mode: SeedMode = "per-edit") -> Seed:
    """Return the function that gives the 31-bit seed of every edit of a chain.

    `case` is its slug, repeats count from 0. Fixed: one seed for all its edits; none: None.
    """

    def seed(number: int, step: str) -> int | None:
        if mode == "none":
            return None
        edit = (number, step) if mode == "per-edit" else ("chain",)
        return int.from_bytes(drawn(secret, case, repeat, *edit)[:4]) >> 1

    return seed


def shuffled(secret: str, items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """Return the items in the order that the secret draws, by their names."""
    return sorted(items, key=lambda item: drawn(secret, "order", name(item)))
