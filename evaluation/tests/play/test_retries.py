"""Retries repeat only temporary errors, and honour Retry-After."""

import threading
import time

import pytest
from PIL import Image

from evaluation.editors import Answer, EditorError, Fault, Refused
from evaluation.images import EncodedImage
from evaluation.play.retries import Attempt, Limits, Stopped, with_retries

IMAGE = EncodedImage.from_image(Image.new("RGB", (8, 8)))
QUICK = Limits(attempts=4, first_wait=0.001, longest_wait=0.01)


def error(**options):
    return EditorError("no", **{"fault": Fault.SERVER_ERROR, **options})


class Scripted:
    """An edit with a given result for each call."""

    def __init__(self, *ends):
        self.ends, self.calls = list(ends), 0

    def __call__(self):
        self.calls += 1
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        return end


ANSWER = Answer(IMAGE, 0.1, cost=0.04)


def retried(edit, limits=QUICK, stop=None):
    return with_retries(edit, limits, stop or threading.Event())


def test_temporary_errors_are_retried():
    edit = Scripted(error(), error(), ANSWER)
    assert retried(edit) is ANSWER
    assert edit.calls == 3


@pytest.mark.parametrize(
    ("ended", "cost"), [(error(), 0.0), (error(billed=True), None), (ANSWER, 0.04)]
)
def test_an_attempt_costs_what_was_billed(ended, cost):
    assert Attempt(1, 0.1, ended).cost == cost


@pytest.mark.parametrize(
    "end", [error(permanent=True), Refused("no people"), ValueError("a bug"), KeyboardInterrupt()]
)
def test_permanent_errors_are_raised_at_once(end):
    edit = Scripted(end, ANSWER)
    with pytest.raises(type(end)):
        retried(edit)
    assert edit.calls == 1


def test_the_last_error_is_raised_after_the_attempts():
    last = error(fault=Fault.TIMEOUT)
    edit = Scripted(error(), error(), error(), last)
    with pytest.raises(EditorError) as caught:
        retried(edit)
    assert caught.value is last
    assert edit.calls == 4


@pytest.mark.parametrize(
    ("asked", "at_least", "at_most"), [(0.2, 0.2, 0.4), (9999, 0.3, 0.5), (-5, 0, 0.1)]
)
def test_retry_after_is_honoured_within_the_cap(asked, at_least, at_most):
    limits = Limits(attempts=2, first_wait=0.001, longest_wait=0.3)
    started = time.monotonic()
    retried(Scripted(error(retry_after=asked), ANSWER), limits)
    assert at_least <= time.monotonic() - started < at_most + 0.5


def test_a_wait_that_would_pass_the_time_limit_is_not_begun():
    limits = Limits(attempts=100, seconds=0.1, longest_wait=60)
    started = time.monotonic()
    with pytest.raises(EditorError):
        retried(Scripted(error(retry_after=30), ANSWER), limits)
    assert time.monotonic() - started < 1


def test_stop_ends_a_wait():
    stop = threading.Event()
    edit = Scripted(error(retry_after=30), ANSWER)
    threading.Timer(0.1, stop.set).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        retried(edit, Limits(), stop)
    assert time.monotonic() - started < 5
