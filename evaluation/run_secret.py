"""What only the harness knows while a run is played, and what is drawn by it.

A run's secret is random. Its seeds, the order of its chains and its audits are drawn by it,
the same in the shell and on the site, so that no model can know them beforehand; it is
published when the run has ended, so that anybody can draw them again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias, TypeVar

import numpy as np

#: By the number of the trip and the name of its step, "forward" or "backward" of a round trip.
Seed: TypeAlias = Callable[[int, str], int | None]
SeedMode = Literal["per-edit", "fixed", "none"]
SEED_MODES: tuple[SeedMode, ...] = ("per-edit", "fixed", "none")
T = TypeVar("T")


def new_secret() -> str:
    """A secret for one run: 256 random bits, in hexadecimal digits."""
    return secrets.token_hex(32)


def commitment(secret: str) -> str:
    """What may be told of a secret beforehand, to show afterwards that it was this one."""
    return hashlib.sha256(secret.encode()).hexdigest()


def drawn(secret: str, *names: object) -> bytes:
    """The 32 bytes that the secret draws for something of this name."""
    text = "/".join(str(name) for name in names)
    return hmac.digest(secret.encode(), text.encode(), "sha256")


def generator(secret: str, *names: object) -> np.random.Generator:
    """Random numbers that the secret draws for something of this name."""
    return np.random.default_rng(int.from_bytes(drawn(secret, *names)))


def chain_seeds(secret: str, case: str, repeat: int, mode: SeedMode = "per-edit") -> Seed:
    """The seed of every edit of a chain, 31 bits; `case` is its slug, repeats count from 0.

    Fixed: the same for all its edits; none: None is sent with each.
    """

    def seed(number: int, step: str) -> int | None:
        if mode == "none":
            return None
        edit = (number, step) if mode == "per-edit" else ("chain",)
        return int.from_bytes(drawn(secret, case, repeat, *edit)[:4]) >> 1

    return seed


def shuffled(secret: str, items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """The items in the order that the secret draws, by their names."""
    return sorted(items, key=lambda item: drawn(secret, "order", name(item)))
