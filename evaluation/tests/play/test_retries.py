"""Retries ask again only when it can help, and wait as long as they are told."""

import threading
import time

import pytest
from PIL import Image

from evaluation.editors import Answer, EditorError, Fault, Refused
from evaluation.images import Picture
from evaluation.play.retries import Limits, Stopped, with_retries

PICTURE = Picture.from_image(Image.new("RGB", (8, 8)))
QUICK = Limits(attempts=4, first_wait=0.001, longest_wait=0.01)


def error(**options):
    return EditorError("no", **{"fault": Fault.SERVER_ERROR, **options})


class Scripted:
    """An edit that ends as it is told to, call after call."""

    def __init__(self, *ends):
        self.ends, self.calls = list(ends), 0

    def __call__(self, picture, prompt, seed=None, beside=None):
        self.calls += 1
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        return end


ANSWER = Answer(PICTURE, 0.1, cost=0.04)


def test_what_can_heal_is_asked_again_and_every_attempt_is_told():
    edit, told = Scripted(error(), error(billed=True), ANSWER), []
    assert with_retries(edit, QUICK, on_attempt=told.append)(PICTURE, "x", seed=1) is ANSWER
    assert [a.number for a in told] == [1, 2, 3]
    assert [a.cost for a in told] == [0.0, None, 0.04]


@pytest.mark.parametrize(
    "end", [error(permanent=True), Refused("no people"), ValueError("a bug"), KeyboardInterrupt()]
)
def test_what_cannot_heal_passes_at_once(end):
    edit = Scripted(end, ANSWER)
    with pytest.raises(type(end)):
        with_retries(edit, QUICK)(PICTURE, "x")
    assert edit.calls == 1


def test_the_last_error_is_raised_after_the_attempts():
    last = error(fault=Fault.TIMEOUT)
    edit = Scripted(error(), error(), error(), last)
    with pytest.raises(EditorError) as caught:
        with_retries(edit, QUICK)(PICTURE, "x")
    assert caught.value is last
    assert edit.calls == 4


@pytest.mark.parametrize(
    ("asked", "at_least", "at_most"), [(0.2, 0.2, 0.4), (9999, 0.3, 0.5), (-5, 0, 0.1)]
)
def test_retry_after_is_honoured_within_the_cap(asked, at_least, at_most):
    limits = Limits(attempts=2, first_wait=0.001, longest_wait=0.3)
    started = time.monotonic()
    with_retries(Scripted(error(retry_after=asked), ANSWER), limits)(PICTURE, "x")
    assert at_least <= time.monotonic() - started < at_most + 0.5


def test_a_wait_that_would_pass_the_time_limit_is_not_begun():
    limits = Limits(attempts=100, seconds=0.1, longest_wait=60)
    started = time.monotonic()
    with pytest.raises(EditorError):
        with_retries(Scripted(error(retry_after=30), ANSWER), limits)(PICTURE, "x")
    assert time.monotonic() - started < 1


def test_stop_ends_a_wait():
    stop = threading.Event()
    edit = with_retries(Scripted(error(retry_after=30), ANSWER), Limits(), stop=stop)
    threading.Timer(0.1, stop.set).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        edit(PICTURE, "x")
    assert time.monotonic() - started < 5


def test_threads_may_share_the_edit():
    def flaky(picture, prompt, seed=None, beside=None):
        if seed not in seen:
            seen.add(seed)
            raise error()
        return ANSWER

    seen, edit = set(), with_retries(flaky, QUICK)
    results = []
    threads = [
        threading.Thread(target=lambda s=s: results.append(edit(PICTURE, "x", seed=s)))
        for s in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [ANSWER] * 8
