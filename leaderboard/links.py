"""Addresses for those who read them elsewhere: in mails, files and other programs."""

from __future__ import annotations

from django.conf import settings


def absolute(path: str) -> str:
    """The whole address of a page of this site."""
    return settings.SITE_URL.rstrip("/") + path
