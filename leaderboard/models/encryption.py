"""Secrets at rest: a text field that is stored encrypted; without a key, nothing is stored."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from evaluation.errors import UserFacingError


class Unreadable(UserFacingError):
    """A stored secret that none of the current keys decrypts."""


@lru_cache(maxsize=4)
def _fernet(keys: tuple[str, ...]) -> MultiFernet:
    if not keys:
        raise ImproperlyConfigured("FIELD_KEYS is empty: secrets cannot be stored")
    return MultiFernet([Fernet(key) for key in keys])


def encrypt(text: str) -> str:
    """Encrypt the text with the newest key (the first of FIELD_KEYS)."""
    return _fernet(tuple(settings.FIELD_KEYS)).encrypt(text.encode()).decode()


def decrypt(token: str) -> str:
    """Decrypt the text. Raises Unreadable if no key fits."""
    try:
        return _fernet(tuple(settings.FIELD_KEYS)).decrypt(token.encode()).decode()
    except InvalidToken:
        raise Unreadable("no key in FIELD_KEYS decrypts the stored secret") from None


def rotate(token: str) -> str:
    """Encrypt a secret again with the newest key. Raises Unreadable if no key fits."""
    try:
        return _fernet(tuple(settings.FIELD_KEYS)).rotate(token.encode()).decode()
    except InvalidToken:
        raise Unreadable("no key in FIELD_KEYS decrypts the stored secret") from None


class Secret:
    """An encrypted value in memory: shows nothing until `reveal()` is called."""

    def __init__(self, token: str) -> None:
        self.token = token

    def reveal(self) -> str:
        return decrypt(self.token) if self.token else ""

    def __bool__(self) -> bool:
        return bool(self.token)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.token == self.token

    def __hash__(self) -> int:
        return hash(self.token)

    def __str__(self) -> str:
        return "set" if self.token else ""

    __repr__ = __str__


class EncryptedTextField(models.TextField):
    """A field that reads as a `Secret`; assign plain text to replace it. Dumps leave it empty."""

    # For the type checker: the types of assignment and of access.
    _pyi_private_set_type: str | Secret  # type: ignore[assignment]
    _pyi_private_get_type: Secret  # type: ignore[assignment]

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Secret:
        return Secret(value or "")

    def to_python(self, value: Any) -> Secret:
        if isinstance(value, Secret):
            return value
        return Secret(encrypt(value) if value else "")

    def get_prep_value(self, value: Any) -> str:
        return self.to_python(value).token

    def pre_save(self, model_instance: models.Model, add: bool) -> Secret:
        secret = self.to_python(getattr(model_instance, self.attname))
        setattr(model_instance, self.attname, secret)
        return secret

    def value_to_string(self, obj: models.Model) -> str:
        return ""
