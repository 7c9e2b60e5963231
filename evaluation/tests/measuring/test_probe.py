from __future__ import annotations

import base64
import io
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageOps

from evaluation.editors.base import Answer, Editor, Refused
from evaluation.editors.contracts import CONTRACTS
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage
from evaluation.measuring import probe
from evaluation.measuring.probe import ProbeReport, Step, probe_image, probe_steps
from evaluation.testing.hostile_server import HostileServer, as_json, response
from evaluation.testing.waiting import wait_until
from examples import example_server

KEY = "sk-canary-0123456789abcdef"


def listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def example() -> Iterator[str]:
    """The example server, run from a clone as the README says."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, example_server.__file__, str(port)], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: listens(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_example_server_passes_in_every_contract(example: str, contract: str) -> None:
    url = example if contract == "huggingface" else f"{example}/v1"
    report = probe.probe({"url": url, "contract": contract, "allow_local": True, "timeout": 20})
    assert [(step.name, step.state) for step in report.steps] == [
        (name, "passed") for name in probe.LABELS
    ]
    assert report.ok
    steps = {step.name: step for step in report.steps}
    assert steps["forward"].data["type"] == "image/png"
    assert steps["forward"].data["status"] == 200
    assert steps["restored"].data["retained"] == 1.0


def test_the_example_server_is_short_and_needs_only_pillow() -> None:
    source = Path(example_server.__file__).read_text()
    assert len(source.splitlines()) < 60
    imported = {line.split()[1].split(".")[0] for line in source.splitlines() if "import " in line}
    assert imported - set(sys.stdlib_module_names) == {"PIL"}


def test_the_notebook_tests_an_endpoint_and_shows_its_images(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(__file__).resolve().parents[3] / "examples" / "check_endpoint.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            text = "".join(cell["source"]).replace("http://127.0.0.1:8000", example)
            exec(text, names)
    said = capsys.readouterr().out
    assert said.count("passed") == len(probe.LABELS)
    assert "curl" in said
    assert list(names["images"]) == ["sent", "edited", "restored"]
    assert names["strip"].getbbox() == (0, 0, 768, 256)


def test_the_report_is_plain_json(example: str) -> None:
    report = probe.probe({"url": f"{example}/v1", "allow_local": True})
    data = json.loads(json.dumps(report.to_dict()))
    assert data["ok"] is True
    assert data["steps"][0] == {
        "name": "settings",
        "label": "Request can be built",
        "state": "passed",
        "detail": "",
        "advice": "",
        "data": {},
    }


def test_steps_appear_while_they_run(example: str) -> None:
    states = [
        (step.name, step.state)
        for step in probe_steps({"url": f"{example}/v1", "allow_local": True})
    ]
    assert states.index(("forward", "running")) < states.index(("forward", "passed"))
    assert states.index(("forward", "passed")) < states.index(("backward", "running"))


# --- editors with faults -----------------------------------------------------------------


@dataclass
class Does(Editor):
    """An editor that makes the same edit for any prompt."""

    what: Callable[[Image.Image], Any]

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        answer = self.what(image.decoded)
        return Answer(
            answer if isinstance(answer, EncodedImage) else EncodedImage.from_image(answer), 0.1
        )


def found(what: Callable[[Image.Image], Any], name: str) -> Step:
    report = probe.probe(Does(what))
    return next(step for step in report.steps if step.name == name)


def jpeg(image: Image.Image) -> EncodedImage:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=85)
    return EncodedImage.from_bytes(buffer.getvalue())


def test_an_input_sent_back_unchanged_fails() -> None:
    step = found(lambda image: image, "change")
    assert (step.state, "unchanged" in step.detail) == ("failed", True)
    assert not probe.probe(Does(lambda image: image)).ok


def test_a_change_that_is_only_compression_is_not_an_edit() -> None:
    assert found(jpeg, "change").state == "warning"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda image: image.resize((1024, 1024)), "got 1024 x 1024"),
        (lambda image: image.crop((0, 0, 512, 300)), "a different aspect ratio"),
    ],
)
def test_another_size_is_a_warning(what: Callable[[Image.Image], Any], words: str) -> None:
    step = found(what, "size")
    assert step.state == "warning"
    assert words in step.detail
    assert step.advice


def test_a_restored_image_with_nothing_left_fails() -> None:
    step = found(lambda image: Image.new("RGB", (8, 8), "red"), "restored")
    assert step.state == "failed"
    assert step.data["retained"] < 0
    assert found(lambda image: Image.new("RGB", (512, 300), "red"), "restored").state == "warning"
    assert found(ImageOps.flip, "restored").state == "passed"


def test_an_image_of_one_colour_cannot_be_judged() -> None:
    card = EncodedImage.from_image(Image.new("RGB", (64, 64), "red"))
    report = probe.probe(Does(lambda image: image), image=card)
    steps = {step.name: step for step in report.steps}
    assert steps["restored"].state == "skipped"


def raises(error: Exception) -> Callable[[Image.Image], Any]:
    def edit(_: Image.Image) -> Any:
        raise error

    return edit


def test_a_refusal_fails_with_the_beginning_of_its_reason() -> None:
    step = found(raises(Refused("policy " * 100)), "forward")
    assert step.state == "failed"
    assert step.detail.startswith("the model refused: policy policy")
    assert len(step.detail) < 230


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_has_its_advice(fault: Fault) -> None:
    step = found(raises(EditorError("it broke", fault=fault, permanent=True)), "forward")
    assert (step.state, step.detail) == ("failed", "it broke")
    assert len(step.advice) > 20
    assert step.data == {"fault": fault.value, "permanent": True}


def test_a_call_is_retried_if_that_can_help(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    error = EditorError("busy", fault=Fault.RATE_LIMITED, retry_after=3)
    steps = list(probe_steps(Does(raises(error))))
    assert waits == [3, 3]
    assert steps[-1].state == "failed"
    assert any("tried again" in step.detail for step in steps)
    waits.clear()
    long = EditorError("busy", fault=Fault.RATE_LIMITED, retry_after=3600)
    assert list(probe_steps(Does(raises(long))))[-1].state == "failed"
    assert waits == []


# --- endpoints with faults ---------------------------------------------------------------


def probed(server: HostileServer, reply: bytes, **options: Any) -> ProbeReport:
    server.answers("/v1/images/edits", reply)
    settings = {"url": server.url("/v1"), "allow_local": True, "api_key": KEY, "timeout": 10}
    return probe.probe(settings, **options)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            as_json({"error": {"message": f"no model {KEY}"}}, 400),
            "400 Bad Request: no model $API_KEY",
        ),
        (as_json({"error": {"code": "nsfw", "message": "a red ball?"}}, 400), "a red ball?"),
        (as_json({"detail": "steps " * 200}, 422), "steps steps"),
        (
            response(500, f"CUDA out of memory {KEY}".encode(), "text/plain"),
            "CUDA out of memory $API_",
        ),
        (
            response(
                404, b"<style>p {}</style><h1>Not\n found</h1><script>x()</script>", "text/html"
            ),
            "HTTP 404 Not Found: Not found",
        ),
        (response(402, b"body", "body/secret"), "HTTP 402 Payment Required"),
        (
            response(200, b"<h1>Welcome", "text/html"),
            "got a web page (text/html): check the path of the address",
        ),
    ],
)
def test_an_error_is_quoted_short_with_the_address_called_and_without_the_key(
    reply: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with HostileServer() as server:
        report = probed(server, reply)
        called = server.url("/v1/images/edits")
    step = report.steps[-1]
    assert said in step.detail
    assert len(step.detail) <= 230
    assert KEY not in json.dumps(report.to_dict())
    if "red ball" not in said:
        assert step.advice.endswith(f"We called {called}")


def test_private_and_broken_addresses_end_before_any_call() -> None:
    for url in ("https://127.0.0.1/v1", "https://[fe80::1]/", "http://example.com", "nonsense"):
        report = probe.probe({"url": url})
        assert [step.name for step in report.steps] == ["settings"]
        assert not report.ok
    report = probe.probe({"url": "https://no-such-host.invalid/v1"})
    assert [(step.name, step.state) for step in report.steps][-1] == ("address", "failed")


def test_a_truncated_image_is_a_failure_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    half = base64.b64encode(probe_image().data[:5000]).decode()
    with HostileServer() as server:
        report = probed(server, as_json({"data": [{"b64_json": half}]}))
        assert len(server.received) == probe.ATTEMPTS
    assert report.steps[-1].state == "failed"
    assert "cannot be decoded" in report.steps[-1].detail


def test_the_probe_image_is_the_same_everywhere() -> None:
    image = probe_image()
    assert image.size == (512, 512)
    assert image.decoded.getpixel((140, 360)) == probe_image().decoded.getpixel((140, 360))
    assert len(image.data) < 400_000
