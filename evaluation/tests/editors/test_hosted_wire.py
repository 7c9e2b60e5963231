"""The exact request that each hosted editor sends."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image

from evaluation.content.catalog import editing_models
from evaluation.editors import find_row, load_editor, load_row
from evaluation.editors.base import DEFAULT_SETTINGS, EditSettings, Turn
from evaluation.images import EncodedImage, clean_wire
from evaluation.testing.fake_providers import FAKES, KEY, FakeProvider
from evaluation.testing.fake_providers.inline import FakeOpenAI
from evaluation.testing.fake_providers.server import Received

PROMPT = "Add a red hat."
IMAGE = EncodedImage.from_image(Image.radial_gradient("L").convert("RGB").resize((512, 384)))
BASE64 = base64.b64encode(IMAGE.data).decode()
URI = "data:image/png;base64," + BASE64

Send = Callable[..., FakeProvider]


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Iterator[Send]:
    """Edits one image with the editor of a shipped row and its fake provider."""
    running: list[FakeProvider] = []

    def one_edit(
        slug: str,
        image: EncodedImage = IMAGE,
        seed: int | None = 7,
        settings: EditSettings | None = None,
    ) -> FakeProvider:
        row = dict(find_row(editing_models(), slug))
        fake = FAKES[row["editor"]]().__enter__()
        running.append(fake)
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        local = {key: fake.options[key] for key in ("base_url", "timeout", "poll_every")}
        row["options"] = row["options"] | local
        editor = load_row(row)
        editor.edit_with(image, PROMPT, seed, settings or DEFAULT_SETTINGS)
        editor.close()
        assert fake.edits == 1
        return fake

    yield one_edit
    for fake in running:
        fake.__exit__()


def gemini_body(**config: Any) -> dict[str, Any]:
    data = base64.urlsafe_b64encode(IMAGE.data).decode()
    parts = [{"inlineData": {"data": data, "mime_type": "image/png"}}, {"text": PROMPT}]
    return {
        "contents": [{"parts": parts, "role": "user"}],
        "generationConfig": {"responseModalities": ["IMAGE"], "seed": 7, **config},
    }


@pytest.mark.parametrize(
    ("settings", "size", "more"),
    [
        (None, "512", {}),
        (EditSettings(temperature=0.0, size="2K"), "2K", {"temperature": 0.0}),
    ],
)
def test_gemini_with_thoughts_a_size_tier_and_an_arms_temperature(
    send: Send, settings: EditSettings | None, size: str, more: dict[str, float]
) -> None:
    (request,) = send("gemini-3.1-flash-image", settings=settings).edit_requests
    assert request.path == "/v1/models/gemini-3.1-flash-image:generateContent"
    assert request.query == ""
    assert request.headers["x-goog-api-key"] == KEY
    assert request.json == gemini_body(
        imageConfig={"aspectRatio": "4:3", "imageSize": size},
        thinkingConfig={"include_thoughts": True},
        **more,
    )


def test_gemini_continues_a_conversation_and_sends_no_image_twice(send: Send) -> None:
    first, second = (
        clean_wire(EncodedImage.from_image(IMAGE.decoded.transpose(turn)))
        for turn in (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.ROTATE_180)
    )
    history = (Turn("Add a hat.", first, IMAGE), Turn("Remove the hat.", second))
    (request,) = send(
        "gemini-3.1-flash-image", second, settings=EditSettings(history=history)
    ).edit_requests

    def said(content: dict[str, Any]) -> list[str | bytes]:
        return [
            part["text"] if "text" in part else base64.urlsafe_b64decode(part["inlineData"]["data"])
            for part in content["parts"]
        ]

    contents = request.json["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "model", "user"]
    assert [said(content) for content in contents] == [
        [IMAGE.data, "Add a hat."],
        [first.data],
        ["Remove the hat."],
        [second.data],
        [PROMPT],
    ]
    # An image that is not the model's own answer is sent.
    (request,) = send(
        "gemini-3.1-flash-image", settings=EditSettings(history=history)
    ).edit_requests
    assert said(request.json["contents"][-1]) == [IMAGE.data, PROMPT]


def test_a_free_size_is_requested_at_the_tier_in_the_shape_of_the_image(send: Send) -> None:
    (request,) = send("seedream-4-0", settings=EditSettings(size="2K")).edit_requests
    width, height = (int(side) for side in request.json["size"].split("x"))
    assert width / height == pytest.approx(4 / 3, rel=0.02)
    assert width * height == pytest.approx(2048**2, rel=0.05)


def test_nano_banana_takes_a_ratio_only_and_no_seed_is_sent_without_one(send: Send) -> None:
    (request,) = send("gemini-2-5-flash-image", seed=None).edit_requests
    assert request.path == "/v1/models/gemini-2.5-flash-image:generateContent"
    body = gemini_body(imageConfig={"aspectRatio": "4:3"})
    del body["generationConfig"]["seed"]
    assert request.json == body


@pytest.mark.parametrize(
    ("slug", "expected"),
    [
        (
            "gpt-image-2",
            {
                "model": "gpt-image-2-2026-04-21",
                "size": "960x720",
                "quality": "medium",
                "background": "opaque",
            },
        ),
        (
            "gpt-image-1-5",
            {
                "model": "gpt-image-1.5",
                "size": "1536x1024",
                "quality": "medium",
                "background": "opaque",
                "input_fidelity": "high",
            },
        ),
    ],
)
def test_openai(send: Send, slug: str, expected: dict[str, str]) -> None:
    (request,) = send(slug).edit_requests
    assert (request.path, request.query) == ("/v1/images/edits", "")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    fields, files = FakeOpenAI.parts(request)
    assert fields == {"prompt": PROMPT, "n": "1", "output_format": "png", **expected}
    assert files == {"image": IMAGE.data}


FLUX = {"prompt": PROMPT, "input_image": BASE64, "output_format": "png", "seed": 7}


@pytest.mark.parametrize(
    ("slug", "expected"),
    [
        ("flux-kontext-pro", {"aspect_ratio": "4:3", "prompt_upsampling": False}),
        ("flux-2-pro", {"width": 512, "height": 384, "disable_pup": True}),
        ("flux-2-max", {"width": 512, "height": 384, "disable_pup": True}),
        ("flux-2-flex", {"width": 512, "height": 384, "prompt_upsampling": False, "steps": 50}),
        ("flux-2-klein-4b", {"width": 512, "height": 384}),
    ],
)
def test_black_forest_labs(send: Send, slug: str, expected: dict[str, Any]) -> None:
    fake = send(slug)
    submit, *polls, fetch = fake.requests
    assert (submit.path, submit.query) == (f"/v1/{slug}", "")
    assert submit.json == {**FLUX, **expected}
    assert {request.headers.get("x-key") for request in (submit, *polls)} == {KEY}
    assert "x-key" not in fetch.headers


@pytest.mark.parametrize(
    ("slug", "model", "size"),
    [
        ("qwen-image-edit", "qwen-image-edit", {}),
        ("qwen-image-edit-plus", "qwen-image-edit-plus-2025-12-15", {"size": "704*528"}),
        ("qwen-image-2-0-pro", "qwen-image-2.0-pro", {"size": "640*480"}),
    ],
)
def test_dashscope(send: Send, slug: str, model: str, size: dict[str, str]) -> None:
    fake = send(slug)
    create, fetch = fake.requests
    assert create.path == "/api/v1/services/aigc/multimodal-generation/generation"
    assert create.headers["authorization"] == f"Bearer {KEY}"
    assert create.json == {
        "model": model,
        "input": {"messages": [{"role": "user", "content": [{"image": URI}, {"text": PROMPT}]}]},
        "parameters": {
            "n": 1,
            "seed": 7,
            "prompt_extend": False,
            "watermark": False,
            "negative_prompt": " ",
            **size,
        },
    }
    assert "authorization" not in fetch.headers


ONE = {"sequential_image_generation": "disabled"}


@pytest.mark.parametrize(
    ("slug", "expected"),
    [
        ("seedream-4-0", {"model": "seedream-4-0-250828", "size": "1152x864", **ONE}),
        ("seedream-4-5", {"model": "seedream-4-5-251128", "size": "2240x1680", **ONE}),
        (
            "seedream-5-0-lite",
            {"model": "seedream-5-0-260128", "size": "2240x1680", "output_format": "png", **ONE},
        ),
        ("seedream-5-0-pro", {"model": "seedream-5-0-pro-260628", "size": "1152x864"}),
        (
            "seededit-3-0",
            {"model": "doubao-seededit-3-0-i2i-250628", "size": "adaptive", "guidance_scale": 5.5},
        ),
    ],
)
def test_ark(send: Send, slug: str, expected: dict[str, Any]) -> None:
    (request,) = send(slug).requests
    assert (request.path, request.query) == ("/api/v3/images/generations", "")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "prompt": PROMPT,
        "image": URI,
        "response_format": "b64_json",
        "watermark": False,
        "seed": 7,
        **expected,
    }


@pytest.mark.parametrize(
    ("slug", "path", "expected"),
    [
        (
            "flux-2-pro-fal",
            "/fal-ai/flux-2-pro/edit",
            {
                "image_urls": [URI],
                "seed": 7,
                "image_size": {"width": 512, "height": 384},
                "output_format": "png",
            },
        ),
        (
            "reve-edit",
            "/fal-ai/reve/edit",
            {"image_url": URI, "output_format": "png", "num_images": 1},
        ),
    ],
)
def test_fal(send: Send, slug: str, path: str, expected: dict[str, Any]) -> None:
    fake = send(slug)
    submit, *polls, fetch = fake.requests
    assert (submit.path, submit.query) == (path, "")
    assert submit.json == {"prompt": PROMPT, **expected}
    assert {r.headers.get("authorization") for r in (submit, *polls)} == {f"Key {KEY}"}
    assert "authorization" not in fetch.headers


def test_replicate(send: Send) -> None:
    submit, *polls, fetch = send("flux-2-pro-replicate").requests
    assert submit.path == "/v1/models/black-forest-labs/flux-2-pro/predictions"
    assert submit.headers["prefer"] == "wait"
    assert submit.json == {
        "input": {
            "prompt": PROMPT,
            "input_images": [URI],
            "seed": 7,
            "width": 512,
            "height": 384,
            "aspect_ratio": "custom",
            "output_format": "png",
        }
    }
    assert {r.headers.get("authorization") for r in (submit, *polls)} == {f"Bearer {KEY}"}
    assert "authorization" not in fetch.headers


def test_the_environment_may_name_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, variable in {
        "gemini": "GOOGLE_GEMINI_BASE_URL",
        "openai-images": "OPENAI_BASE_URL",
        "dashscope": "DASHSCOPE_HTTP_BASE_URL",
        "replicate": "REPLICATE_BASE_URL",
    }.items():
        monkeypatch.setenv(variable, "https://proxy.example.org/x/")
        assert load_editor(name, model="m").describe()["url"] == "https://proxy.example.org/x"
        stated = load_editor(name, model="m", base_url="https://other.example.org")
        assert stated.describe()["url"] == "https://other.example.org"


def test_the_message_about_a_missing_key_names_its_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ARK_API_KEY", raising=False)
    for slug, giver in {"seedream-4-0": "BytePlus", "seededit-3-0": "Volcano Engine"}.items():
        (missing,) = load_row(find_row(editing_models(), slug)).missing()
        assert missing == f"set the environment variable ARK_API_KEY to your {giver} key"


def test_google_api_key_wins_over_gemini_api_key_and_vertex_is_not_used(
    monkeypatch: pytest.MonkeyPatch, send: Send
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "another-key")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    (request,) = send("gemini-2-5-flash-image").edit_requests
    assert request.headers["x-goog-api-key"] == KEY


# Nothing but pixels and prompt names the case.

PROMPTS = ("Add a red hat.", "Remove the hat.")


def besides(request: Received) -> dict[str, str]:
    """Return a request without its pixels, prompt and length."""
    body = request.body
    pixels = IMAGE.data
    for written in (pixels, base64.b64encode(pixels), base64.urlsafe_b64encode(pixels)):
        body = body.replace(written, b"PIXELS")
    for prompt in PROMPTS:
        body = body.replace(prompt.encode(), b"PROMPT")
    assert b"PIXELS" in body
    assert b"PROMPT" in body
    headers = {k: v for k, v in request.headers.items() if k not in ("content-length", "host")}
    words = re.findall(r"[\w.-]+", body.decode())
    return {
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "names": " ".join(headers),
        **headers,
        **{f"word {number}": word for number, word in enumerate(words)},
    }


@pytest.mark.parametrize("name", sorted(FAKES))
def test_requests_differ_only_in_pixels_and_prompt(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FAKES[name]() as fake:
        for variable, value in fake.environment.items():
            monkeypatch.setenv(variable, value)
        for run in range(2):  # a second run knows all that the first was sent
            editor = load_editor(name, **fake.options)
            for number, prompt in enumerate(PROMPTS * 2):
                editor.edit(IMAGE, prompt, seed=1000 * run + number)
            editor.close()
        sent = [besides(request) for request in fake.requests if fake.is_edit(request)]
    assert len(sent) == 8
    assert {tuple(request) for request in sent} == {tuple(sent[0])}
    for word in sent[0]:
        found = [request[word] for request in sent]
        # The same for all, or never seen before: no table helps, and nothing belongs together.
        assert len(set(found)) in (1, len(found)), (word, found)
