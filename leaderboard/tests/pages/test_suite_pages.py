"""Suites, and the pages to read."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from django.urls import reverse
from django.utils import timezone

from evaluation.content import catalog
from evaluation.content.edit_types import FAMILIES
from evaluation.content.suites import Suite as CoreSuite
from leaderboard.models import EditPair, Suite
from leaderboard.testing import factories
from leaderboard.testing.boards import make_run, make_suite
from leaderboard.views import texts

pytestmark = pytest.mark.django_db
HOSTILE = '<script>alert(1)</script>"&'


def page_of(client, address):
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def test_a_suite_shows_images_pairs_licences_and_its_hash(client):
    suite = factories.tiny_suite(images=3)
    make_run("Model", suite)
    page = page_of(client, suite.get_absolute_url())
    assert suite.content_hash in page
    for image in suite.images.all():
        assert image.stored.thumbnail_url in page
        assert image.licence in page
    for case in suite.cases.all():
        assert case.get_absolute_url() in page
        assert case.forward in page
    assert "3 under CC0-1.0" in page
    assert reverse("suite_file", args=[suite.slug, suite.version]) in page


def test_the_suite_file_is_the_one_that_the_shell_plays(client):
    suite = factories.tiny_suite()
    response = client.get(reverse("suite_file", args=[suite.slug, suite.version]))
    assert "attachment" in response["Content-Disposition"]
    assert "tiny-v1.json" in response["Content-Disposition"]
    assert CoreSuite.from_dict(json.loads(response.content)).content_hash == suite.content_hash


def test_the_types_of_edits_state_what_is_requested_and_what_is_not(client):
    assert "Types of edits" not in page_of(client, factories.tiny_suite().get_absolute_url())
    shipped = catalog.suite("smoke")
    Suite.objects.create(
        slug="smoke",
        version=shipped.version,
        status=Suite.Status.FROZEN,
        frozen_at=timezone.now(),
        trips=shipped.trips,
        size=shipped.size,
        definition=shipped.to_dict(),
        content_hash=shipped.content_hash,
    )
    page = page_of(client, reverse("suite", args=["smoke", shipped.version]))
    table = re.search(r'aria-label="Types of edits">(.*?)</table>', page, re.S).group(1)
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.S)[1:]
    assert len(rows) == len(FAMILIES)
    objects, lacking = next(row for row in rows if ">Objects<" in row).split('class="muted"')
    asked = sum(pair.type == "object/add" for pair in shipped.pairs)
    assert f"Add an object <b>{asked}</b>" in objects
    assert "Move an object" in lacking
    assert "Add an object" not in lacking


def test_the_balance_adds_up(client):
    suite = make_suite(images=5)
    page = page_of(client, suite.get_absolute_url())
    table = re.search(r'aria-label="Balance">(.*?)</table>', page, re.S).group(1)
    numbers = [int(n) for n in re.findall(r">\s*(?:<b>)?(\d+)(?:</b>)?\s*</td>", table)]
    assert numbers[-1] == suite.cases.count() == 20


def test_the_address_without_version_leads_to_the_newest(client):
    make_suite("demo")
    suite = make_suite("demo", version=3, changes="More faces.")
    response = client.get(reverse("suite_latest", args=["demo"]))
    assert response.status_code == 302
    assert response["Location"] == suite.get_absolute_url()
    assert "More faces." in page_of(client, suite.get_absolute_url())
    index = page_of(client, reverse("suites"))
    assert index.index("Demo v3") < index.index("Demo v1")


@pytest.mark.parametrize("address", ["/suites/none/", "/suites/none/1/", "/suites/draft/1/"])
def test_drafts_and_unknown_suites_give_404(client, address):
    Suite.objects.create(slug="draft", title="Draft")
    assert client.get(address).status_code == 404
    assert client.get("/suites/draft/1/suite.json").status_code == 404
    assert "Draft" not in page_of(client, reverse("suites"))


def test_a_pair_that_was_reworded_since_is_marked_and_keeps_its_words(client):
    suite = factories.tiny_suite()
    pair = EditPair.objects.create(
        slug="flip",
        title="Flip",
        category="geometry",
        forward="New words",
        backward="New words",
        change="exact",
        operator="flip_horizontal",
    )
    suite.cases.filter(pair_slug="flip").update(edit_pair=pair)
    page = page_of(client, suite.get_absolute_url())
    assert "reworded later" in page
    assert "New words" not in page
    assert "Mirror the image horizontally" in page


# Pages to read


def test_the_methodology_has_every_definition_and_its_examples_are_there(client, settings):
    page = page_of(client, reverse("methodology"))
    for anchor in re.findall(r'href="#([\w-]+)"', page):
        assert f'id="{anchor}"' in page, anchor
    images = re.findall(r'src="/static/(img/examples/[^"]+)"', page)
    assert len(images) >= 20
    for name in set(images):
        path = settings.BASE_DIR / "static" / name
        assert path.is_file(), name
        assert path.stat().st_size < 80_000, name
    assert "<math" in page
    assert "@misc{convergebench" in page
    assert "0.59" in page


def test_the_methodology_begins_with_an_abstract_and_ends_with_the_mathematics(client):
    page = page_of(client, reverse("methodology"))
    heads = re.findall(r"<h2>\s*(.+?)\s*</h2>", page)
    assert heads[:4] == [
        "What each model does",
        "When an image counts as lost",
        "How models are ranked",
        "What the numbers cannot show",
    ]
    assert heads[-1] == "The mathematics"
    before, mathematics = page.split('id="mathematics"')
    assert "<math" in mathematics
    assert "<math" not in before
    assert before.count('<details class="fold"') >= 14


def test_twelve_strips_show_every_state_and_two_missed_ones(client, settings):
    strips = texts.strips()
    assert len(strips) == 12
    states = {"as new", "slightly worn", "clearly damaged", "unusable"}
    assert {strip["state"] for strip in strips} == states
    assert sum(strip["missed"] for strip in strips) == 2
    files = {strip[side]["file"] for strip in strips for side in ("before", "after")}
    sizes = [(settings.BASE_DIR / "static" / file).stat().st_size for file in files]
    assert sum(sizes) < 600_000
    page = page_of(client, reverse("methodology"))
    for strip in strips:
        assert strip["words"] in page
        assert f"The same, damaged: {strip['words']}" in page
    assert page.count('loading="lazy"') >= 24


def test_the_methodology_has_the_headline_on_known_damages(client):
    page = page_of(client, reverse("methodology"))
    rows = {(row["group"], row["what"]): row for row in texts.damages()["rows"]}
    lost, hue = rows["a thing lost", ""], rows["another hue", ""]
    assert lost["below"] >= 0.9 * lost["judged"]
    assert hue["below"] >= 0.9 * hue["judged"]
    assert not any(row["below"] for (group, _), row in rows.items() if group == "harmless")
    assert "JPEG 50" in page


def test_an_editor_that_does_nothing_makes_no_visible_change():
    assert [line["seen"] for line in texts.examples()["noop"]["lines"]] == [True, False]


def test_the_worked_example_matches_the_code():
    worked = texts.worked_example()
    times = {line["story"]: round(line["event"].time, 2) for line in worked["lines"]}
    assert times["It does nothing"] == 0
    assert times["It refuses on trip 4"] == 3
    assert times["It hardly fades"] == 10
    assert times["A slow decline"] == pytest.approx(6 + 0.06 / 0.09, abs=0.01)
    assert (worked["usable_trips"], worked["half_life"]) == ("4.2", "3.0")
    assert worked["path"].count("V") == 5
    # The drawn curve encloses the usable trips.
    width, height = texts.DRAWING_SIZE
    numbers = [int(number) for number in re.findall(r"[HV](\d+)", worked["path"])]
    ends, losses = [0, *numbers[::2]], [0, *numbers[1::2]]
    steps = zip(pairwise(ends), losses, strict=True)
    area = sum((to - start) * (1 - loss / height) for (start, to), loss in steps)
    assert area / width * texts.TRIPS == pytest.approx(float(worked["usable_trips"]), abs=0.1)


def test_the_changelog_names_suites_and_the_metrics_in_use(client):
    make_run("Model", make_suite(changes="The first of its kind."))
    page = page_of(client, reverse("changelog"))
    assert "The first of its kind." in page
    assert "LPIPS" in page
    assert "alex-0.1" in page


@pytest.mark.parametrize("name", ["methodology", "about", "changelog", "suites"])
def test_pages_to_read_have_a_title_a_description_and_few_bytes(client, name):
    page = page_of(client, reverse(name))
    assert re.search(r"<title>\s*[^<]{10,}", page)
    assert re.search(r'name="description"\s+content="[^"]{40,}', page)
    # The method has tables of errors and of tricks, and the mathematics.
    assert len(page) < (98_000 if name == "methodology" else 64_000), len(page)
