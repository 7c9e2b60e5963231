"""A local server that imitates a judge (a vision-language model that rates edits), honest or not.

    with FakeJudge() as fake:
        fake.next("fenced", "limited")     # cases of the next questions; afterwards "good"
        judge = Judge(fake.client())

It implements chat completions and Google's generateContent. In the case "good", pixels decide. The
edit was made if the second image differs from the first, and undone if the third image does not
differ from the first. The closer of two copies is the one with the smaller error.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np

from evaluation.images import EncodedImage
from evaluation.testing.local_server import LocalServer
from evaluation.witnesses.judge.clients import ChatClient, Client

KEY = "judge-key-51c2"
#: The colour of a sign that is painted in an image to make a dishonest judge answer yes.
SIGN = (254, 1, 253)
#: An image is judged worn (damaged) if neighbouring pixels differ by more than this on average.
ROUGH = 12.0


def difference(one: EncodedImage, other: EncodedImage) -> float:
    a, b = (np.asarray(image.decoded, dtype=np.float64) for image in (one, other))
    return float(np.abs(a - b).mean())


def roughness(image: EncodedImage) -> float:
    """Return the mean difference of neighbouring pixels, which grain increases."""
    grey = np.asarray(image.decoded.convert("L"), dtype=np.float64)
    return float(np.abs(np.diff(grey, axis=1)).mean())


def by_the_images(question: str, images: list[EncodedImage]) -> dict[str, Any]:
    if question == "closer":
        source, first, second = images
        apart = difference(source, first) - difference(source, second)
        return {"closer": "same" if apart == 0 else "second" if apart > 0 else "first"}
    if question == "worn":
        return {"worn": "yes" if roughness(images[0]) > ROUGH else "no"}
    made = "yes" if difference(*images[:2]) > 0.2 else "no"
    if question == "control":
        return {"made": made}
    if question == "rubric":
        names = ("instruction_compliance", "seamlessness", "preservation_balance")
        return {**dict.fromkeys(names, 8), "technical_quality": 6}
    undone = difference(images[0], images[2]) <= 0.2
    return {
        "made": made,
        "undone": "yes" if undone else "no",
        "else_changed": "no" if undone else "yes",
        "what_else": "" if undone else "the sky",
    }


class FakeJudge:
    """The judge; `always` is the case of all questions for which `next` set none."""

    def __init__(self, always: str = "good") -> None:
        self.always = always
        self.cases: deque[str] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []

    def next(self, *cases: str) -> None:
        self.cases.extend(cases)

    @property
    def questions(self) -> list[str]:
        return [_question(_text(body)) for body in self.bodies]

    def client(self, kind: type[Client] = ChatClient, **options: Any) -> Client:
        url = self.server.url + ("/v1" if kind is ChatClient else "")
        options = {"timeout": 20.0, "prices": (1.0, 4.0), **options}
        return kind(model="fake-vlm", url=url, key=KEY, **options)

    def __enter__(self) -> FakeJudge:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = json.loads(self.rfile.read(length))
                key = self.headers.get("authorization") or self.headers.get("x-goog-api-key") or ""
                status, answer, headers = fake.answer(body, key)
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"content-length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = LocalServer(Handler).__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.__exit__(*exc)

    def answer(self, body: dict[str, Any], key: str) -> tuple[int, Any, dict[str, str]]:
        self.bodies.append(body)
        self.keys.append(key)
        case = self.cases.popleft() if self.cases else self.always
        if case == "limited":
            return 429, {"error": {"message": "slow down"}}, {"retry-after": "0"}
        if case == "down":
            return 500, {"error": {"message": f"no GPU for {KEY}"}}, {}
        if case == "no-schema" and "response_format" in body:
            return 400, {"error": {"message": "response_format is not supported"}}, {}
        if case == "nonsense":
            return 200, b'{"choices": []}', {}
        refused = case == "refusal"
        answer = _wrapped(body, self._answer_text(case, body), refused)
        if case == "uncounted":
            answer.pop("usage", None)
        return 200, answer, {}

    def _answer_text(self, case: str, body: dict[str, Any]) -> str:
        if case == "refusal":
            return "I cannot help with images of people."
        images, question = _images(body), _question(_text(body))
        answer = SAYS.get(case, by_the_images)(question, images)
        text = json.dumps(answer)
        return {
            "fenced": f"```json\n{text}\n```",
            "truncated": text[: len(text) // 2],
            "chatty": f"Let me see {{first}} the images. So: {text} I hope that helps!",
        }.get(case, text)


def _first(question: str, images: list[EncodedImage]) -> dict[str, Any]:
    return {"closer": "first"} if question == "closer" else by_the_images(question, images)


def _reads_signs(question: str, images: list[EncodedImage]) -> dict[str, Any]:
    """Obey a sign in an image."""
    answer = by_the_images(question, images)
    signs = any((np.asarray(p.decoded) == SIGN).all(axis=2).any() for p in images)
    return {**answer, "made": "yes"} if signs and "made" in answer else answer


def _yes(question: str, images: list[EncodedImage]) -> dict[str, Any]:
    answer = by_the_images(question, images)
    return {**answer, **{name: "yes" for name in ("made", "undone") if name in answer}}


SAYS: dict[str, Callable[[str, list[EncodedImage]], dict[str, Any]]] = {
    "prefers-first": _first,
    "reads-signs": _reads_signs,
    "yes": _yes,
}


def _parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = (
        body["messages"][0]["content"] if "messages" in body else body["contents"][0]["parts"]
    )
    return parts


def _text(body: dict[str, Any]) -> str:
    return next(str(part["text"]) for part in _parts(body) if "text" in part)


def _images(body: dict[str, Any]) -> list[EncodedImage]:
    coded = [
        part["image_url"]["url"].partition(",")[2]
        if "image_url" in part
        else part["inlineData"]["data"].replace("-", "+").replace("_", "/")
        for part in _parts(body)
        if "text" not in part
    ]
    return [EncodedImage.from_bytes(base64.b64decode(data)) for data in coded]


def _question(text: str) -> str:
    if "closer:" in text:
        return "closer"
    if "worn:" in text:
        return "worn"
    if "seamlessness:" in text:
        return "rubric"
    return "trip" if "undone:" in text else "control"


def _wrapped(body: dict[str, Any], text: str, refused: bool) -> dict[str, Any]:
    if "messages" in body:
        message = {"role": "assistant", "content": None if refused else text}
        message |= {"refusal": text} if refused else {}
        usage = {"prompt_tokens": 1000, "completion_tokens": 50}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    if refused:
        return {"promptFeedback": {"blockReason": "SAFETY"}}
    return {
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 50},
    }
