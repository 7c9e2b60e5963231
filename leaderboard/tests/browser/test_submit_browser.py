"""A model from the form to the board, as people do it: in a browser, with real workers."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from django.contrib.auth.models import User
from PIL import Image, ImageOps

from evaluation.testing.local_server import LocalServer
from examples import example_server
from leaderboard.models import Run, Submission
from leaderboard.testing import factories
from leaderboard.testing.browser import PHONE
from leaderboard.testing.worker_processes import WorkerProcesses

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
#: A worker starts, imports, and waits for a processor that others use too.
PATIENCE = 120_000
CANARY = "canary-key-5d1e"


class Model:
    """The example server with a model in it that turns images, a little noisily.

    It holds an edit back until the test has seen on the page what came before.
    """

    def __init__(self) -> None:
        self.restores, self.plays = threading.Event(), threading.Event()
        self.turned = 0
        self.broken = False
        self.disc = example_server.edit

    def edit(self, image: Image.Image, prompt: str) -> Image.Image:
        if self.broken:
            raise RuntimeError("out of memory")
        if "ball" in prompt:  # the probe
            assert not prompt.startswith("Remove") or self.restores.wait(PATIENCE / 1000)
            return self.disc(image, prompt)
        self.turned += 1
        assert self.turned <= 6 or self.plays.wait(PATIENCE / 1000)
        turned = ImageOps.mirror(image) if "irror" in prompt else image.rotate(180)
        noise = np.random.default_rng().integers(-9, 10, (*image.size[::-1], 3))
        return Image.fromarray(np.clip(np.asarray(turned) + noise, 0, 255).astype(np.uint8))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    model = Model()
    monkeypatch.setattr(example_server, "edit", model.edit)
    return model


@pytest.fixture
def endpoint(model: Model) -> Iterator[str]:
    with LocalServer(example_server.Handler) as server:
        yield f"{server.url}/v1"
        model.restores.set()
        model.plays.set()


@pytest.fixture
def workers(workers: WorkerProcesses) -> WorkerProcesses:
    workers.start("probes")
    workers.start("edits")
    workers.start("gpu")
    return workers


@pytest.fixture
def operator(db: None, visit: Any) -> Any:
    """Signed in as somebody who may do everything."""
    User.objects.create_superuser("grace", password="a long password")

    def sign_in(address: str) -> Any:
        seen = visit(f"/admin/login/?next={address}")
        seen.page.set_default_timeout(PATIENCE)
        seen.page.fill("#id_username", "grace")
        seen.page.fill("#id_password", "a long password")
        seen.page.click("text=Log in")
        return seen

    return sign_in


def fill_in(page: Any, address: str, name: str) -> None:
    page.set_default_timeout(PATIENCE)
    page.fill("#id_endpoint_url", address)
    page.fill("#id_api_key", CANARY)
    page.fill("#id_model_id", "turner-1")
    page.fill("#id_name", name)
    page.fill("#id_organisation", "Example Labs")
    page.fill("#id_email", "ada@example.org")


@pytest.mark.both_databases
def test_a_model_comes_from_the_form_to_the_board(
    visit: Any, operator: Any, workers: WorkerProcesses, endpoint: str, model: Model
) -> None:
    factories.tiny_suite()  # 2 images, 2 pairs, 3 trips: 24 edits
    submitter = visit("/submit/")
    page = submitter.page
    fill_in(page, endpoint, "Turner 1")
    request = page.locator("#curl")
    request.get_by_text(f"{endpoint}/images/edits").wait_for()
    assert "turner-1" in request.inner_text()
    assert CANARY not in request.inner_text()
    assert submitter.faults() == []
    page.click("text=Submit and test the endpoint")

    page.wait_for_url(re.compile("/submissions/"))
    page.locator("#probe li[data-result=passed]", has_text="edits an image").wait_for()
    assert "Testing" in page.locator("#state-label").inner_text()
    page.locator("#probe li[data-result=running]", has_text="undoes the edit").wait_for()
    assert page.locator(".steps [aria-current]").inner_text().startswith("Test")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("text=Copy this address")
    page.wait_for_selector("text=Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert submitter.faults() == []
    model.restores.set()
    page.locator("#state-label", has_text="review").wait_for()
    assert page.locator("#probe li[data-result=passed]").count() == 7
    assert "of the image was restored" in page.locator("#probe").inner_text()
    shown = page.locator("#probe-images img")
    assert shown.count() == 3
    page.wait_for_function(
        "() => [...document.querySelectorAll('#probe-images img')].every((i) => i.naturalWidth)"
    )
    assert "calls to your endpoint" in page.locator("#submission").inner_text()
    assert submitter.faults() == []

    admin = operator("/admin/leaderboard/submission/")
    admin.page.click("a.button:text-is('Review')")
    admin.page.wait_for_url(re.compile("review"))
    # Django's own side bar moves while its script runs.
    assert [fault for fault in admin.faults() if "layout" not in fault] == []
    assert " edits, price not known" in admin.page.content()
    assert admin.page.locator(".tested img").count() == 3
    assert CANARY not in admin.page.content()
    admin.page.click("text=Evaluate it")
    admin.page.click("text=Send decision")
    admin.page.get_by_text("is being evaluated as run").wait_for()

    page.locator("#run-words", has_text=re.compile("[1-6] of 2[0-9] edits")).wait_for()
    assert page.locator("#run-bar").is_visible()
    page.locator("#restored img").first.wait_for()
    assert submitter.faults() == []
    model.plays.set()
    page.locator("#state-next", has_text="Finished, not public yet").wait_for()
    page.locator("#run-words", has_text="12 trips scored").wait_for()
    stranger = visit("/", size=PHONE)
    assert "Turner 1" not in stranger.page.content()

    assert page.get_by_text("Your result, not public yet").is_visible()
    assert page.locator(".steps [aria-current]").inner_text().startswith("You")
    submitter.see_chart()
    assert submitter.faults() == []
    page.click("text=Make a link to share")
    link = page.locator("input[readonly]").input_value()
    stranger.open(urlsplit(link).path)  # it names the site's own address, not this server's
    assert stranger.page.get_by_text("Under embargo.").is_visible()
    stranger.see_chart()
    assert stranger.faults() == []
    page.click("text=Publish the result …")
    assert page.get_by_text("Everyone will read").is_visible()
    page.click("text=Publish it now")
    page.get_by_text("See the result").wait_for()
    assert page.locator("#state-next").inner_text().startswith("Published")
    stranger.open("/")
    row = stranger.page.locator(".board tbody tr", has_text="Turner 1")
    assert row.count() == 1
    page.click("text=See the result")
    page.wait_for_url(re.compile("/models/turner-1/"))
    assert page.locator("h1").inner_text() == "Turner 1"
    assert stranger.faults() == submitter.faults() == []
    assert admin.complaints == admin.page.evaluate("window.violations") == []
    run = Run.objects.get()
    assert run.published
    assert run.current
    assert run.standings.filter(scope="all").exists()


def test_a_failing_endpoint_is_reported_and_tested_again_once_it_works(
    visit: Any, workers: WorkerProcesses, endpoint: str, model: Model
) -> None:
    factories.tiny_suite()
    model.broken = True
    model.restores.set()
    seen = visit("/submit/", size=PHONE)
    page = seen.page
    fill_in(page, endpoint, "Broken 1")
    page.click("text=Submit and test the endpoint")
    page.locator("#state-label", has_text="The test failed").wait_for()
    failed = page.locator("#probe li[data-result=failed]")
    assert failed.count() == 1
    assert failed.locator(".advice").is_visible()
    assert "bad" in page.locator("#state-label").get_attribute("class")
    assert page.locator("#curl").get_by_text("curl").is_visible()
    assert seen.faults() == []

    model.broken = False
    page.fill("#id_endpoint_url", f"{endpoint}/")  # corrected where it failed
    page.click("text=Correct and test")
    page.locator("#state-label", has_text="review").wait_for()
    assert page.locator("#probe li[data-result=failed]").count() == 0

    page.click("text=Withdraw the submission")  # not yet: nobody said that they were sure
    assert page.locator("#state-label").inner_text() != "Withdrawn"
    page.check("[name=sure]")
    page.click("text=Withdraw the submission")
    page.locator("#state-label", has_text="Withdrawn").wait_for()
    assert page.locator("button[name=act]").count() == 0
    assert seen.faults() == []
    assert not Submission.objects.get().api_key
