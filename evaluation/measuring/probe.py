"""Probe an endpoint with one small image, edited and restored.

`probe_steps` yields each step twice, when it begins ("running") and when it has ended, so that a
page can show it live. `probe` returns all steps. A step has the status, type, size and time of the
answer, or the beginning of the error's text, without the key. If the probe runs for a `stranger`,
errors of addresses reveal nothing about our network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageDraw

from evaluation.content.suites import EditPair
from evaluation.editors.base import Answer, Editor, Refused
from evaluation.editors.contracts.replies import ReplyError
from evaluation.editors.endpoint import Endpoint
from evaluation.editors.payloads import WRONG_TYPE
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage, blank_card, clean_wire, is_reframed
from evaluation.measuring.calibration import retention
from evaluation.measuring.change_seen import change_seen
from evaluation.measuring.cheating import mean_square
from evaluation.net.addresses import AddressRefused, public_error

State = Literal["running", "passed", "warning", "failed", "skipped"]
SIDE = 512
SEED = 7
ATTEMPTS = 3
LONGEST_WAIT = 20.0
SLOW_SECONDS = 60.0
TOO_SLOW = "the test as a whole took too long"
#: Longer error texts of endpoints are cut to this number of characters.
QUOTED = 200

PAIR = EditPair(
    slug="red-ball",
    category="objects",
    forward="Add a shiny red ball in the foreground.",
    backward="Remove the shiny red ball in the foreground.",
    change="local",
    object="ball",
)

LABELS = {
    "settings": "Request can be built",
    "address": "Address is allowed",
    "forward": "Endpoint edits an image",
    "size": "Size is preserved",
    "change": "Edit is visible",
    "backward": "Endpoint undoes the edit",
    "restored": "Image is restored",
}

ADVICE = {
    Fault.UNREACHABLE: "Start the server and make sure that it can be reached from the internet "
    "under this name and port (443 by default). A firewall may block our address.",
    Fault.TIMEOUT: "An edit must finish within the time-out. If the first call loads the model, call "
    "the endpoint once yourself and test again, or set a longer time-out.",
    Fault.RATE_LIMITED: "Wait until the endpoint accepts calls again, or raise the limit of this key.",
    Fault.SERVER_ERROR: "Check the endpoint's log for this call.",
    Fault.KEY_REJECTED: "Give a valid key. It is sent as “Authorization: Bearer …”.",
    Fault.OUT_OF_CREDIT: "Top up the account of this key.",
    Fault.TLS: "Install a certificate for this host name from a public authority, with its "
    "intermediate certificates, and renew it before it expires.",
    Fault.BLOCKED: "Use an address that is reachable from the public internet.",
    Fault.CONFIGURATION: "Check the address, the API format (contract) and the model id. The page shows "
    "the exact request as a curl command to try.",
    Fault.BAD_ANSWER: "Answer with one complete PNG, JPEG or WebP image, as the API format (contract) requires.",
    Fault.BAD_REQUEST: "The server rejects a field of the request. Turn off the seed, response_format "
    "or size, set a model id, or remove the last extra parameter.",
}


@dataclass(frozen=True)
class Step:
    """The state of one step of the probe, with advice if something is wrong."""

    name: str
    state: State
    detail: str = ""
    advice: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return LABELS[self.name]


@dataclass(frozen=True)
class ProbeReport:
    """All steps of a probe. The probe is `ok` if no step failed; warnings do not count."""

    steps: tuple[Step, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return all(step.state != "failed" for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        steps = [{"label": step.label, **asdict(step)} for step in self.steps]
        return {"ok": self.ok, "seconds": round(self.seconds, 3), "steps": steps}


def probe(subject: Editor | Mapping[str, Any], **options: Any) -> ProbeReport:
    """Probe an editor, or the endpoint with these options; return all steps."""
    start = time.monotonic()
    steps = {step.name: step for step in probe_steps(subject, **options)}
    return ProbeReport(tuple(steps.values()), time.monotonic() - start)


def probe_steps(
    subject: Editor | Mapping[str, Any],
    *,
    image: EncodedImage | None = None,
    pair: EditPair = PAIR,
    stranger: bool = True,
    seconds: float = math.inf,
    keep: Callable[[str, EncodedImage], None] = lambda name, image: None,
    opened: Callable[[Editor], None] = lambda editor: None,
    pause: Callable[[float], object] | None = None,
) -> Iterator[Step]:
    """Yield the steps as they happen; each replaces the earlier step of the same name.

    The whole probe, with retries, ends within `seconds`. The callback `keep` receives each image
    with its name: "sent", "edited" or "restored". `opened` receives the editor; the caller may
    close it to end the probe early. `pause` waits before a retry.
    """
    deadline = time.monotonic() + seconds
    if isinstance(subject, Mapping):
        try:
            editor: Editor = Endpoint(**subject)
        except EditorError as error:
            yield _failed("settings", error, stranger)
            return
        yield Step("settings", "passed")
    else:
        editor = subject
    opened(editor)
    limits = _Limits(stranger, deadline, pause or time.sleep)
    try:
        yield from _edits(editor, image or probe_image(), pair, limits, keep)
    finally:
        if editor is not subject:
            editor.close()


@dataclass(frozen=True)
class _Limits:
    """The limits of a probe: the detail of its errors, its deadline, the pause before a retry."""

    stranger: bool
    deadline: float
    pause: Callable[[float], object]


def _edits(
    editor: Editor,
    image: EncodedImage,
    pair: EditPair,
    limits: _Limits,
    keep: Callable[[str, EncodedImage], None],
) -> Iterator[Step]:
    source = clean_wire(image)  # answers are compared with this image, which is what is sent
    if isinstance(editor, Endpoint):
        yield Step("address", "running")
        try:
            editor.http.check(editor.protocol.address(editor))
        except EditorError as error:
            yield _failed("address", error, limits.stranger)
            return
        yield Step("address", "passed")
    keep("sent", source)
    forward = yield from _call("forward", editor, source, pair.forward, limits)
    if forward is None:
        return
    keep("edited", forward.image)
    yield _size(source, forward.image)
    yield _change(source, forward.image, pair)
    backward = yield from _call("backward", editor, forward.image, pair.backward, limits)
    if backward is not None:
        keep("restored", backward.image)
        yield _restored(source, backward.image)


def _call(
    name: str, editor: Editor, image: EncodedImage, prompt: str, limits: _Limits
) -> Generator[Step, None, Answer | None]:
    """Yield the steps of one edit; return the answer, or None if it failed."""
    retry_detail = ""
    called = f" We called {editor.protocol.address(editor)}" if isinstance(editor, Endpoint) else ""
    for attempt in range(1, ATTEMPTS + 1):
        yield Step(name, "running", retry_detail, data={"prompt": prompt})
        left = limits.deadline - time.monotonic()
        if left <= 0:
            yield _failed(name, EditorError(TOO_SLOW, fault=Fault.TIMEOUT), limits.stranger, called)
            return None
        if isinstance(editor, Endpoint):
            editor.timeout = min(editor.timeout, left)
        try:
            answer = editor.send(image, prompt, seed=SEED)
        except Refused as refused:
            detail = f"the model refused: {_cut(refused.reason)}"
            advice = "The prompt is harmless; a filter of the model may be too strict."
            yield Step(name, "failed", detail, advice)
            return None
        except EditorError as error:
            wait = 1.0 if error.retry_after is None else error.retry_after
            if error.permanent or attempt == ATTEMPTS or wait > LONGEST_WAIT:
                yield _failed(name, error, limits.stranger, called)
                return None
            wait = min(wait, max(0.0, limits.deadline - time.monotonic()))
            retry_detail = f"{_message(error)}; tried again after {wait:.0f} s"
            limits.pause(wait)
        else:
            yield _answered(name, answer)
            return answer
    return None


def _answered(name: str, answer: Answer) -> Step:
    image, seconds = answer.image, answer.seconds
    data = {
        "seconds": round(seconds, 3),
        "status": answer.notes.get("status"),
        "type": image.mime,
        "width": image.width,
        "height": image.height,
        "bytes": len(image.data),
        "notes": list(image.notes),
    }
    detail = (
        f"{image.mime}, {image.width} x {image.height}, "
        f"{len(image.data) / 1000:,.0f} kB in {seconds:.1f} s"
    )
    if wrong := answer.notes.get(WRONG_TYPE):
        advice = "Set the Content-Type to the actual type of the image."
        return Step(name, "warning", f"{detail}; {wrong}", advice, data)
    if seconds > SLOW_SECONDS:
        advice = "Such slow edits make the evaluation long. Allow more calls at once if you can."
        return Step(name, "warning", detail, advice, data)
    return Step(name, "passed", detail, data=data)


def _size(source: EncodedImage, answered: EncodedImage) -> Step:
    sent, got = (f"{image.width} x {image.height}" for image in (source, answered))
    if answered.size == source.size:
        return Step("size", "passed", f"{got}, as sent")
    if is_reframed(answered.size, source.size):
        return Step(
            "size",
            "warning",
            f"sent {sent}, got {got}: a different aspect ratio",
            "Return images in the aspect ratio of the input. Every metric rates a cropped or "
            "stretched image lower.",
        )
    return Step(
        "size",
        "warning",
        f"sent {sent}, got {got}",
        "Return images in the size of the input if the model can: each resizing costs detail.",
    )


def _change(source: EncodedImage, answered: EncodedImage, pair: EditPair) -> Step:
    if _same(source, answered):
        return Step(
            "change",
            "failed",
            "the model returned the input unchanged",
            "The model must follow the prompt; an unchanged image scores 0.",
        )
    try:
        verdict = change_seen(source.decoded, answered.decoded, pair)
    except ImportError:
        return Step("change", "skipped", "OpenCV is not installed here; runs do check the change")
    data = {"measure": dict(verdict.measure)}
    if verdict.seen is False:
        return Step(
            "change",
            "warning",
            "no clear change was found where the prompt asks for one",
            "Look at the image that your model returned. A round trip without a visible "
            "change counts as failed.",
            data,
        )
    return Step("change", "passed", f"“{pair.forward}” changed the image", data=data)


def _restored(source: EncodedImage, restored: EncodedImage) -> Step:
    card = EncodedImage.from_image(blank_card(source.decoded))
    retained = retention(mean_square(source, restored), mean_square(source, card))
    if retained is None:
        return Step("restored", "skipped", "the sent image has only one colour")
    data = {"retained": round(retained, 4)}
    if retained <= 0:
        return Step(
            "restored",
            "warning" if is_reframed(restored.size, source.size) else "failed",
            "after one round trip nothing of the image is left",
            "Check that the backward prompt and the edited image both reach the model.",
            data,
        )
    return Step(
        "restored", "passed", f"{retained * 100:.1f} % of the image was restored", data=data
    )


def _same(first: EncodedImage, second: EncodedImage) -> bool:
    return first.size == second.size and first.decoded.tobytes() == second.decoded.tobytes()


def _failed(name: str, error: EditorError, stranger: bool, called: str = "") -> Step:
    if stranger:
        error = public_error(error)
    data = {"fault": error.fault.value, "permanent": error.permanent}
    return Step(name, "failed", _message(error), _advice(error) + called, data)


def _message(error: EditorError) -> str:
    """Return the error's message, with the beginning of the endpoint's answer if there is one."""
    text = error.text if isinstance(error, ReplyError) else ""
    return _cut(f"{error.message}: {text}" if text else error.message)


def _cut(text: str) -> str:
    return text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"


def _advice(error: EditorError) -> str:
    if isinstance(error, AddressRefused) and error.fault is Fault.CONFIGURATION:
        return "Correct the address."
    return ADVICE[error.fault]


@cache
def probe_image() -> EncodedImage:
    """Draw a landscape with some grain; every machine draws identical pixels."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    sky = np.stack((110 + 90 * rows, 160 + 60 * rows, 230 + 10 * rows), axis=-1)
    image = Image.fromarray(sky.astype(np.uint8))
    draw = ImageDraw.Draw(image)
    draw.ellipse((380, 50, 450, 120), (250, 225, 130))
    for base, height, color in ((300, 60, (96, 122, 150)), (345, 35, (84, 128, 90))):
        ridge = [
            (x, base - height * (math.sin(x / 70 + base) + 0.4 * math.sin(x / 23)))
            for x in range(SIDE)
        ]
        draw.polygon([(0, SIDE), *ridge, (SIDE, SIDE)], color)
    draw.polygon([(0, 400), (SIDE, 380), (SIDE, SIDE), (0, SIDE)], (122, 156, 82))
    draw.rectangle((90, 300, 190, 390), (196, 170, 140))
    draw.polygon([(78, 302), (140, 240), (202, 302)], (140, 70, 56))
    draw.rectangle((128, 340, 152, 390), (84, 60, 44))
    draw.rectangle((330, 330, 344, 400), (92, 70, 52))
    draw.ellipse((296, 250, 378, 345), (52, 104, 60))
    grain = (
        np.random.default_rng(7).normal(0, 4, (SIDE, SIDE, 1)) + 6 * np.sin(40 * columns)[..., None]
    )
    pixels = np.asarray(image, np.float64) + grain
    return EncodedImage.from_image(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))
