"""The secret of a run, and the random values that are derived from it.

Seeds, audits (tests for cheating) and the order of chains are derived from a random secret, so no
model can know them beforehand. The secret is published after the run, so anyone can repeat the
derivation. The shell and the site derive the same values.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, TypeVar

import numpy as np

#: A function (trip number, step name) -> seed. A round trip has the steps "forward" and "backward".
SeedFunction: TypeAlias = Callable[[int, str], int | None]
SeedMode = Literal["per-edit", "fixed", "none"]
SEED_MODES: tuple[SeedMode, ...] = ("per-edit", "fixed", "none")
T = TypeVar("T")


def new_secret() -> str:
    """Return a new secret for a run: 256 random bits in hexadecimal."""
    return secrets.token_hex(32)


def commitment(secret: str) -> str:
    """Return the secret's hash, which is published before the secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def derive_bytes(secret: str, *names: object) -> bytes:
    """Derive 32 bytes from the secret for this name."""
    text = "/".join(str(name) for name in names)
    return hmac.digest(secret.encode(), text.encode(), "sha256")


def generator(secret: str, *names: object) -> np.random.Generator:
    """Return a random generator, seeded from the secret for this name."""
    return np.random.default_rng(int.from_bytes(derive_bytes(secret, *names)))


def chain_seeds(secret: str, case: str, repeat: int, mode: SeedMode = "per-edit") -> SeedFunction:
    """Return the function that gives the 31-bit seed of each edit of a chain.

    `case` is a slug; `repeat` counts from 0. In the mode "fixed" all edits of the chain share one
    seed; in the mode "none" they have no seed.
    """

    def seed(number: int, step: str) -> int | None:
        if mode == "none":
            return None
        edit = (number, step) if mode == "per-edit" else ("chain",)
        return int.from_bytes(derive_bytes(secret, case, repeat, *edit)[:4]) >> 1

    return seed


def shuffled(secret: str, items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """Return the items in a random order that depends only on the secret and their names."""
    return sorted(items, key=lambda item: derive_bytes(secret, "order", name(item)))
