"""Fake providers that answer the request directly: Gemini, OpenAI, DashScope, Ark."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any, ClassVar

from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header

from evaluation.testing.fake_providers.server import (
    KEY,
    EditRequest,
    FakeProvider,
    Received,
    Reply,
    from_data_uri,
    now,
)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


class FakeGemini(FakeProvider):
    """generativelanguage.googleapis.com: the method generateContent."""

    name = "gemini"
    key_variable = "GOOGLE_API_KEY"
    row: ClassVar[Mapping[str, Any]] = {
        "model": "gemini-3.1-flash-image",
        "size": {"ratios": ["1:1", "4:3", "3:4", "3:2", "2:3", "16:9"]},
        "image_sizes": ["512", "1K"],
        "thoughts": True,
    }
    refusals = (
        "blocked-prompt",
        "blocked-unknown",
        "finish-safety",
        "finish-image-safety",
        "finish-recitation",
        "finish-no-image",
        "text-only",
    )

    def authorised(self, request: Received) -> bool:
        return request.headers.get("x-goog-api-key") == KEY

    def is_edit(self, request: Received) -> bool:
        return request.method == "POST" and request.path.endswith(":generateContent")

    def read(self, request: Received) -> EditRequest:
        contents = request.json["contents"]
        for content in contents:
            for part in content["parts"]:
                if content["role"] == "model" and not part.get("thoughtSignature"):
                    raise ValueError("an answer of the model lacks its signature")
        # A chat continues with the last image, whether the user or the model sent it.
        images = [p for c in contents for p in c["parts"] if "inlineData" in p]
        image, text = images[-1], contents[-1]["parts"][-1]
        config = request.json["generationConfig"]
        if config["responseModalities"] != ["IMAGE"]:
            raise ValueError("only images can be requested")
        data = base64.urlsafe_b64decode(image["inlineData"]["data"])
        return EditRequest(data, text["text"], config.get("seed"))

    def answer(self, edit: EditRequest, data: bytes, case: str) -> Reply:
        draft = {"inlineData": {"mimeType": "image/png", "data": encoded(b"a draft")}}
        image = {"inlineData": {"mimeType": "image/png", "data": encoded(data)}}
        parts = [
            {"text": "First I look at the image.", "thought": True},
            {**draft, "thought": True},
            image,
        ]
        return Reply.of(self._response([{"content": {"parts": parts}, "finishReason": "STOP"}]))

    def error(self, status: int, kind: str) -> Reply:
        match kind:
            case "blocked-prompt":
                return self._refusal(promptFeedback={"blockReason": "PROHIBITED_CONTENT"})
            case "blocked-unknown":
                return self._refusal(promptFeedback={"blockReason": "A_NEW_REASON"})
            case "finish-safety" | "finish-image-safety" | "finish-recitation" | "finish-no-image":
                reason = kind.removeprefix("finish-").upper().replace("-", "_")
                return Reply.of(self._response([{"finishReason": reason}]))
            case "text-only":
                parts = [{"text": "I cannot edit images of people."}]
                candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
                return Reply.of(self._response([candidate]))
        codes = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 404: "NOT_FOUND"}
        details: list[dict[str, Any]] = []
        message = f"This is {kind}."
        if kind == "key-rejected":  # Google answers a bad key with 400
            status, message = 400, "API key not valid. Please pass a valid API key."
            details = [{"reason": "API_KEY_INVALID", "domain": "googleapis.com"}]
        elif kind == "no-credit":
            status, message = 429, "Your prepayment credits are depleted."
        elif kind == "limited-inside":
            status = 429
            details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "20.5s"}]
        return Reply.of(
            {
                "error": {
                    "code": status,
                    "message": message,
                    "status": codes.get(status, "INVALID_ARGUMENT"),
                    "details": details,
                }
            },
            status,
        )

    def misbehave(self, case: str) -> Reply | None:
        if case == "limited-inside":
            return self.error(429, case)
        return super().misbehave(case)

    def _refusal(self, **content: Any) -> Reply:
        return Reply.of({**content, "usageMetadata": {"promptTokenCount": 260}})

    def _response(self, candidates: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "candidates": candidates,
            "usageMetadata": {"promptTokenCount": 260, "candidatesTokenCount": 1290},
            "modelVersion": "gemini-3.1-flash-image",
            "responseId": "resp-1",
        }


class FakeOpenAI(FakeProvider):
    """api.openai.com: the path /v1/images/edits."""

    name = "openai-images"
    key_variable = "OPENAI_API_KEY"
    prefix = "/v1"
    row: ClassVar[Mapping[str, Any]] = {
        "model": "gpt-image-2-2026-04-21",
        "size": {"step": 16, "min_pixels": 655360, "max_pixels": 8294400, "max_ratio": 3},
        "params": {"quality": "medium", "background": "opaque"},
        "token_prices": {"text_input": 5.0, "image_input": 8.0, "output": 30.0},
    }
    refusals = ("moderation-blocked",)

    def is_edit(self, request: Received) -> bool:
        return request.method == "POST" and request.path == "/v1/images/edits"

    @staticmethod
    def parts(request: Received) -> tuple[dict[str, str], dict[str, bytes]]:
        """Parse the fields and files of a multipart request."""
        mime, options = parse_options_header(request.headers["content-type"])
        _, form, files = FormDataParser(silent=False).parse(
            io.BytesIO(request.body), mime, len(request.body), options
        )
        return dict(form), {name: file.read() for name, file in files.items()}

    def read(self, request: Received) -> EditRequest:
        fields, files = self.parts(request)
        if unknown := set(fields) & {"seed", "response_format", "temperature"}:
            raise ValueError(f"unknown parameter {unknown}")
        return EditRequest(files["image"], fields["prompt"])

    def answer(self, edit: EditRequest, data: bytes, case: str) -> Reply:
        return Reply.of(
            {
                "created": now(),
                "data": [{"b64_json": encoded(data)}],
                "size": "1024x1024",
                "quality": "medium",
                "output_format": "png",
                "usage": {
                    "input_tokens": 1100,
                    "input_tokens_details": {"text_tokens": 100, "image_tokens": 1000},
                    "output_tokens": 2000,
                    "total_tokens": 3100,
                },
            },
            headers={"x-request-id": "req_1"},
        )

    def error(self, status: int, kind: str) -> Reply:
        code, type_ = {
            "moderation-blocked": ("moderation_blocked", "image_generation_user_error"),
            "key-rejected": ("invalid_api_key", "invalid_request_error"),
            "no-credit": ("insufficient_quota", "insufficient_quota"),
            "gone": ("model_not_found", "invalid_request_error"),
            "limited": ("rate_limit_exceeded", "requests"),
        }.get(kind, (None, "server_error" if status >= 500 else "invalid_request_error"))
        status = 429 if kind == "no-credit" else status
        message = f"This is {kind}."
        if kind == "key-rejected":
            message = f"Incorrect API key provided: {KEY}."
        return Reply.of({"error": {"message": message, "type": type_, "code": code}}, status)


class FakeDashScope(FakeProvider):
    """dashscope-intl.aliyuncs.com: answers with the image's address."""

    name = "dashscope"
    key_variable = "DASHSCOPE_API_KEY"
    prefix = "/api/v1"
    row: ClassVar[Mapping[str, Any]] = {
        "model": "qwen-image-edit-plus-2025-12-15",
        "size": {"step": 16, "min_side": 512, "max_side": 2048},
    }
    refusals = ("inspection", "inspection-inside")
    returns_url = True

    def is_edit(self, request: Received) -> bool:
        path = "/api/v1/services/aigc/multimodal-generation/generation"
        return request.method == "POST" and request.path == path

    def read(self, request: Received) -> EditRequest:
        image, text = request.json["input"]["messages"][0]["content"]
        parameters = request.json["parameters"]
        return EditRequest(from_data_uri(image["image"]), text["text"], parameters.get("seed"))

    def answer(self, edit: EditRequest, data: bytes, case: str) -> Reply:
        url = self.store(data, *faults(case, self.url))
        message = {"role": "assistant", "content": [{"image": url}]}
        return Reply.of(
            {
                "output": {"choices": [{"finish_reason": "stop", "message": message}]},
                "usage": {"width": 64, "height": 48, "image_count": 1},
                "request_id": "rid-1",
            }
        )

    def error(self, status: int, kind: str) -> Reply:
        code = {
            "inspection": "DataInspectionFailed",
            "inspection-inside": "DataInspectionFailed",
            "limited": "Throttling.RateQuota",
            "limited-wait": "Throttling.RateQuota",
            "key-rejected": "InvalidApiKey",
            "no-credit": "Arrearage",
            "gone": "ModelNotFound",
        }.get(kind, "InternalError" if status >= 500 else "InvalidParameter")
        status = 400 if kind == "no-credit" else 200 if kind == "inspection-inside" else status
        return Reply.of({"code": code, "message": f"This is {kind}.", "request_id": "r"}, status)


class FakeArk(FakeProvider):
    """ark.ap-southeast.bytepluses.com: answers with base64; in the case "by-url" with an address."""

    name = "ark"
    key_variable = "ARK_API_KEY"
    prefix = "/api/v3"
    row: ClassVar[Mapping[str, Any]] = {
        "model": "seedream-4-0-250828",
        "size": {"step": 16, "min_pixels": 921600, "max_pixels": 16777216, "max_ratio": 16},
        "params": {"sequential_image_generation": "disabled"},
    }
    refusals = ("input-text", "input-image", "output-image", "risk", "in-body", "in-item")

    def is_edit(self, request: Received) -> bool:
        return request.method == "POST" and request.path == "/api/v3/images/generations"

    def read(self, request: Received) -> EditRequest:
        body = request.json
        if body["watermark"] is not False:
            raise ValueError("a watermark would be drawn")
        return EditRequest(from_data_uri(body["image"]), body["prompt"], body.get("seed"))

    def answer(self, edit: EditRequest, data: bytes, case: str) -> Reply:
        if case == "by-url":
            item = {"url": self.store(data), "size": "64x48"}
        else:
            item = {"b64_json": encoded(data), "size": "64x48"}
        usage = {"generated_images": 1, "output_tokens": 16384}
        return Reply.of(
            {"model": self.row["model"], "created": now(), "data": [item], "usage": usage},
            headers={"X-Request-Id": "ark-1"},
        )

    def error(self, status: int, kind: str) -> Reply:
        code = {
            "input-text": "InputTextSensitiveContentDetected",
            "input-image": "InputImageSensitiveContentDetected",
            "output-image": "OutputImageSensitiveContentDetected",
            "risk": "InputTextRiskDetection",
            "in-body": "OutputImageSensitiveContentDetected",
            "in-item": "OutputImageSensitiveContentDetected",
            "limited": "RateLimitExceeded.EndpointRPMExceeded",
            "key-rejected": "AuthenticationError",
            "no-credit": "AccountOverdueError",
            "gone": "InvalidEndpointOrModel.NotFound",
        }.get(kind, "InternalServiceError" if status >= 500 else "InvalidParameter")
        error = {"error": {"code": code, "message": f"This is {kind}.", "type": "BadRequest"}}
        if kind == "in-item":
            return Reply.of({"created": now(), "data": [error]})
        status = {"in-body": 200, "no-credit": 403}.get(kind, status)
        return Reply.of(error, status)


def faults(case: str, url: str) -> tuple[Reply, ...]:
    """Return the replies at the image's address before the image itself."""
    again = 20
    return {
        "image-fault": (Reply(503), Reply(hang_up=True)),
        "image-expired": (Reply(403, b"<Error>expired</Error>", "application/xml"),) * again,
        "image-redirect": (Reply(302, headers={"Location": url + "/elsewhere"}),) * again,
        "image-html": (Reply(200, b"<html>Sign in</html>", "text/html"),) * again,
        "image-cut": (Reply(200, b"\x89PNG", "image/png", lost=5000),) * again,
        "image-drip": (Reply(200, b"\x89PNG" * 1000, "image/png", drip=0.05),),
    }.get(case, ())
