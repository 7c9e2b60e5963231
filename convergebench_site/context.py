"""The context processor for all templates."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from evaluation import __version__
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD


def site(request: HttpRequest) -> dict[str, Any]:
    return {
        "version": __version__,
        "site_url": settings.SITE_URL,
        "default_threshold": DEFAULT_THRESHOLD,
    }
