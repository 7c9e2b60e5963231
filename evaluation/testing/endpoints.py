"""Editors that call an endpoint on a hostile server."""

from __future__ import annotations

import base64
from typing import Any

from PIL import Image

from evaluation.editors.endpoint import Endpoint
from evaluation.errors import EditorError
from evaluation.images import EncodedImage
from evaluation.testing.hostile_server import HostileServer, as_json, response

KEY = "sk-canary-0123456789abcdef"
IMAGE = EncodedImage.from_image(Image.linear_gradient("L").resize((48, 32)).convert("RGB"))
EDITED = EncodedImage.from_image(Image.new("RGB", (48, 32), (200, 30, 30)))
B64 = base64.b64encode(EDITED.data).decode()
PATHS = {
    "openai-edits": "/v1/images/edits",
    "openai-generations": "/v1/images/generations",
    "huggingface": "/v1",
    "cog": "/v1/predictions",
}
GOOD = {
    "openai-edits": as_json({"created": 1, "data": [{"b64_json": B64}]}),
    "openai-generations": as_json({"data": [{"b64_json": B64}]}),
    "huggingface": response(200, EDITED.data, "image/png"),
    "cog": as_json({"status": "succeeded", "output": f"data:image/png;base64,{B64}"}),
}


def endpoint(server: HostileServer, **options: Any) -> Endpoint:
    settings: dict[str, Any] = {
        "url": server.url("/v1"),
        "api_key": KEY,
        "allow_local": True,
        "timeout": 10.0,
        **options,
    }
    return Endpoint(**settings)


def failure(server: HostileServer, *replies: bytes, **options: Any) -> EditorError:
    """Request an edit from a server with these replies; check the error and return it."""
    contract = options.setdefault("contract", "openai-edits")
    server.answers(PATHS[contract], *replies)
    try:
        endpoint(server, **options).edit(IMAGE, "Add a hat.", seed=5)
    except EditorError as error:
        caught = error
    else:
        raise AssertionError("the edit was answered")
    assert KEY not in str(caught)
    assert len(caught.message) < 700
    return caught
