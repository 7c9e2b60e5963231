"""The fields of a submission."""

from __future__ import annotations

import uuid
from typing import Any

from leaderboard.models import Suite

#: An API key that must appear nowhere.
CANARY = "sk-canary-7d1f0a"


def least_fields(suite: Suite | str, **changes: Any) -> dict[str, Any]:
    """Return the required fields of a submission; a suite is given by its number or its name."""
    return {
        "name": "Fine Editor 2",
        "endpoint_url": "https://93.184.216.34/v1",
        "contract": "openai-edits",
        "api_key": CANARY,
        "suite": suite.pk if isinstance(suite, Suite) else suite,
        **changes,
    }


def form_fields(suite: Suite, **changes: Any) -> dict[str, Any]:
    """Return the fields of the form as a browser sends them."""
    return {
        **least_fields(suite),
        "email": "ada@example.org",
        "send_seed": "on",
        "send_response_format": "on",
        "size": "input",
        "max_in_flight": "4",
        "idempotency_key": str(uuid.uuid4()),
        **changes,
    }
