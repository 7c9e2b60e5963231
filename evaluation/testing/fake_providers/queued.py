"""Fake providers that queue a job whose status is polled: Black Forest Labs, fal, Replicate."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, ClassVar

from evaluation.testing.fake_providers.inline import faults
from evaluation.testing.fake_providers.server import (
    KEY,
    EditRequest,
    FakeProvider,
    Received,
    Reply,
    from_data_uri,
)


class QueuedProvider(FakeProvider):
    """A provider with a list of replies to the polls of each job; the last reply is repeated."""

    polls = True
    returns_url = True
    #: The statuses of a job that is not finished.
    waiting: ClassVar[tuple[str, ...]]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.jobs: dict[str, list[Reply]] = {}

    def enqueue(self, case: str, done: Reply) -> str:
        """Queue a job that ends with `done`, after the polls of this case; return its id."""
        job = f"job-{len(self.jobs)}"
        waits = [Reply.of({"id": job, "status": word}) for word in self.waiting]
        self.jobs[job] = {
            "queued": [*waits, *waits, done],
            "new-word": [Reply.of({"id": job, "status": "Pondering"}), done],
            "poll-fault": [Reply(503), Reply(hang_up=True), Reply(429), done],
            "poll-html": [Reply(200, b"<html>", "text/html"), done],
            "poll-dead": [Reply(500)],
            "poll-forever": [waits[0]],
            "poll-key-rejected": [Reply(401)],
        }.get(case, [waits[0], done])
        return job

    def other(self, request: Received) -> Reply:
        job = request.path.rpartition("/")[2]
        if request.method != "GET" or job not in self.jobs:
            return Reply(404)
        replies = self.jobs[job]
        return replies.pop(0) if len(replies) > 1 else replies[0]


class FakeBFL(QueuedProvider):
    """api.bfl.ai."""

    name = "bfl"
    key_variable = "BFL_API_KEY"
    prefix = "/v1"
    row: ClassVar[Mapping[str, Any]] = {
        "model": "flux-2-pro",
        "size": {"step": 16, "min_side": 64, "max_pixels": 4000000},
        "params": {"disable_pup": True},
    }
    refusals = ("request-moderated", "content-moderated")
    waiting = ("Pending", "Reasoning", "Generating")

    def authorised(self, request: Received) -> bool:
        return request.headers.get("x-key") == KEY

    def is_edit(self, request: Received) -> bool:
        return request.method == "POST"

    def read(self, request: Received) -> EditRequest:
        body = request.json
        if body["output_format"] != "png":
            raise ValueError("JPEG was requested")
        image = base64.b64decode(body["input_image"], validate=True)
        return EditRequest(image, body["prompt"], body.get("seed"))

    def answer(self, edit: EditRequest, data: bytes, case: str) -> Reply:
        result = {"sample": self.store(data, *faults(case, self.url)), "prompt": edit.prompt}
        done = Reply.of({"id": "j", "status": "Ready", "result": result})
        if case == "task-error":
            done = Reply.of({"id": "j", "status": "Error", "details": {"reason": "worker died"}})
        elif case == "task-lost":
            done = Reply.of({"id": "j", "status": "Task not found"})
        return self._submitted(case, done)

    def error(self, status: int, kind: str) -> Reply:
        if kind in self.refusals:
            words = {"request-moderated": "Request Moderated"}.get(kind, "Content Moderated")
            done = Reply.of({"id": "j", "status": words, "details": {"Moderation Reasons": ["x"]}})
            return self._submitted(kind, done)
        if kind == "key-rejected":
            return Reply.of({"detail": "Invalid API key"}, 422)
        return Reply.of({"detail": f"This is {kind}."}, status)

    def _submitted(self, case: str, done: Reply) -> Reply:
        job = self.enqueue(case, done)
        url = f"{self.base_url}/get_result/{job}"
        if case == "foreign-poll":
            url = "https://api.bfl.ai.example.org/v1/get_result/1"
        return Reply.of({"id": job, "polling_url": url, "cost": 4.5})


class FakeFal(QueuedProvider):
    """queue.fal.run."""

    name = "fal"
    key_variable = "FAL_KEY"
    row: ClassVar[Mapping[str, Any]] = {
        "model": "fal-ai/flux-2-pro/edit",
        "size": {"step": 16, "min_side": 256, "max_side": 2048},
        "params": {"output_format": "png"},
    }
    refusals = ("policy", "policy-later", "nsfw")
    waiting = ("IN_QUEUE", "IN_PROGRESS")

    def authorised(self, request: Received) -> bool:
        return request.headers.get("authorization") == f"Key {KEY}"

    def is_edit(self, request: Received) -> bool:
        return request.method == "POST"

    def read(self, request: Received) -> EditRequest:
        body = request.json
        uri = body["image_urls"][0] if "image_urls" in body else body["image_url"]
        return EditRequest(from_data_uri(uri), body["prompt"], body.get("seed"))

    def answer(self, edit: EditRequest, data: bytes, case: str) -> Reply:
        if case == "data-uri":
            url = "data:image/png;base64," + base64.b64encode(data).decode()
        else:
            url = self.store(data, *faults(case, self.url))
        result = {"images": [{"url": url}], "seed": edit.seed, "has_nsfw_concepts": [False]}
        return self._queued(case, Reply.of(result))

    def error(self, status: int, kind: str) -> Reply:
        detail: Any = [{"type": "content_policy_violation", "loc": ["body", "prompt"], "msg": "no"}]
        match kind:
            case "policy":
                return Reply.of({"detail": detail}, 422)
            case "policy-later":
                return self._queued(kind, Reply.of({"detail": detail}, 422))
            case "nsfw":
                black = {"images": [{"url": "https://x"}], "has_nsfw_concepts": [True]}
                return self._queued(kind, Reply.of(black))
            case "no-credit":
                text = "User is locked. Reason: Exhausted balance. Top up your balance."
                return Reply.of({"detail": text}, 403)
        return Reply.of({"detail": f"This is {kind}."}, status)

    def _queued(self, case: str, result: Reply) -> Reply:
        done = {"status": "COMPLETED"}
        if case == "task-error":
            done |= {"error": "worker died", "error_type": "internal_server_error"}
        job = self.enqueue(case, Reply.of(done))
        self.jobs[f"{job}-result"] = [result]
        where = f"{self.url}/fal-ai/flux-2-pro/requests"
        status_url = f"{where}/{job}"
        if case == "foreign-poll":
            status_url = "https://queue.fal.run.example.org/1"
        return Reply.of(
            {
                "request_id": job,
                "status_url": status_url,
                "response_url": f"{where}/{job}-result",
            }
        )


class FakeReplicate(QueuedProvider):
    """api.replicate.com."""

    name = "replicate"
    key_variable = "REPLICATE_API_TOKEN"
    row: ClassVar[Mapping[str, Any]] = {
        "model": "black-forest-labs/flux-2-pro",
        "size": {"step": 16, "min_side": 256, "max_side": 2048},
        "params": {"aspect_ratio": "custom", "output_format": "png"},
    }
    refusals = ("nsfw", "sensitive")
    waiting = ("starting", "processing")

    def is_edit(self, request: Received) -> bool:
        return request.method == "POST" and request.path.endswith("/predictions")

    def read(self, request: Received) -> EditRequest:
        given = request.json["input"]
        address = given["input_images"][0]
        path = address.removeprefix(self.url)
        image = self.files[path][0].body if path in self.files else from_data_uri(address)
        return EditRequest(image, given["prompt"], given.get("seed"))

    def other(self, request: Received) -> Reply:
        if request.method == "POST" and request.path == "/v1/files":
            head, _, rest = request.body.partition(b"\x89PNG")
            assert b'name="content"' in head
            png = b"\x89PNG" + rest[: rest.rindex(b"\r\n--")]
            return Reply.of({"id": "f", "urls": {"get": self.store(png)}}, 201)
        return super().other(request)

    def answer(self, edit: EditRequest, data: bytes, case: str) -> Reply:
        if case == "data-uri":
            output: Any = "data:image/png;base64," + base64.b64encode(data).decode()
        else:
            output = [self.store(data, *faults(case, self.url))]
        done = {"id": "p", "status": "succeeded", "output": output, "version": "v7"}
        if case == "task-error":
            done = {"id": "p", "status": "failed", "error": "worker died", "output": None}
        elif case == "task-lost":
            done = {"id": "p", "status": "canceled", "error": None, "output": None}
        return self._created(case, done)

    def error(self, status: int, kind: str) -> Reply:
        if kind in self.refusals:
            text = {"nsfw": "NSFW content detected. Try another prompt."}.get(
                kind, "The input or output was flagged as sensitive. (E005)"
            )
            return self._created(kind, {"id": "p", "status": "failed", "error": text})
        return Reply.of({"title": kind, "detail": f"This is {kind}.", "status": status}, status)

    def _created(self, case: str, done: dict[str, Any]) -> Reply:
        job = self.enqueue(case, Reply.of(done))
        url = f"{self.url}/v1/predictions/{job}"
        if case == "foreign-poll":
            url = "https://api.replicate.com.example.org/1"
        if case == "at-once":
            return Reply.of({**done, "urls": {"get": url}}, 201)
        return Reply.of({"id": job, "status": "starting", "urls": {"get": url}}, 201)
