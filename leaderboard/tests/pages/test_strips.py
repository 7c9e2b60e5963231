"""A chain's strip, a case across models, and the comparison with JPEG."""

from __future__ import annotations

import io
import re

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from leaderboard.models import Chain, Run, StoredImage, Trip
from leaderboard.models.runs import ChainState, Outcome
from leaderboard.pages import strips
from leaderboard.testing import factories
from leaderboard.testing.boards import make_run, make_suite
from leaderboard.testing.played import once, play

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]
HOSTILE = '<script>alert(1)</script>"&'


@pytest.fixture(scope="module")
def played(django_db_setup, django_db_blocker):
    yield from once(
        django_db_blocker, lambda: play("noise", factories.tiny_suite(slug="shared")).pk
    )


@pytest.fixture
def run(db, played):
    return Run.objects.select_related("editing_model", "suite").get(pk=played)


def strip_of(run, case=None):
    case = case or run.suite.cases.first()
    return reverse("run_case", args=[run.pk, case.pk])


def test_a_strip_shows_every_image_of_the_chain_with_its_scores(client, run):
    page = client.get(strip_of(run)).content.decode()
    chain = run.chains.first()
    for trip in chain.trips.all():
        for image in (trip.edited, trip.restored):
            assert image.thumbnail_url in page
            assert image.copy_url in page
            assert image.original_url in page
        assert f"X{trip.number}" in page
    assert chain.case.forward in page
    assert chain.case.backward in page
    kept = chain.retention("ssim")[0]
    assert f"{100 * kept:.0f}\u00a0%" in page


def test_every_thumbnail_of_a_strip_is_lazy_and_reserves_its_space(client, run):
    page = client.get(strip_of(run)).content.decode()
    thumbnails = [tag for tag in re.findall(r"<img[^>]*>", page) if "/thumbnail/" in tag]
    # The source stands before the viewer, too.
    assert len(thumbnails) == 2 + 2 * run.suite.trips
    for tag in thumbnails:
        assert 'loading="lazy"' in tag
        assert re.search(r'width="\d+"\s+height="\d+"', tag), tag
        assert re.search(r'alt="[^"]+"', tag), tag


def test_a_case_lists_the_model_that_keeps_it_longest_first(client):
    suite = factories.tiny_suite(images=1, trips=2)
    for editor in ("thumbnail", "oracle", "noop"):
        play(editor, suite)
    page = client.get(reverse("case", args=[suite.cases.first().pk])).content.decode()
    places = [page.index(f">{name}</a>") for name in ("Oracle", "Thumbnail")]
    assert places == sorted(places)
    assert "The edit was not made on trip 1: the chain ends at once." in page


def test_a_reference_editors_run_under_way_is_public(client, run):
    Run.objects.filter(pk=run.pk).update(published=False)
    run.editing_model.is_reference = True
    run.editing_model.save()
    assert client.get(strip_of(run)).status_code == 200
    run.editing_model.status = "hidden"
    run.editing_model.save()
    assert client.get(strip_of(run)).status_code == 404


def test_a_case_of_another_suite_is_not_part_of_the_run(client, run):
    other = factories.tiny_suite(slug="other")
    assert client.get(strip_of(run, other.cases.first())).status_code == 404


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome.REFUSED, "The model refused"),
        (Outcome.BLANK, "blank image"),
        (Outcome.FAILED, "No usable answer"),
        (Outcome.LOST, "Lost through our fault"),
    ],
)
def test_a_broken_chain_states_how_it_ended(client, run, outcome, words):
    chain = run.chains.first()
    chain.trips.filter(number=3).update(restored=None)
    results = chain.results
    for numbers in results.values():
        numbers["retention"] = numbers["retention"][:2]
        cause = "censored" if outcome == Outcome.LOST else outcome.value
        numbers["events"]["0.5"] = {"time": 2.0, "cause": cause}
    Chain.objects.filter(pk=chain.pk).update(
        outcome=outcome, outcome_text=HOSTILE, trips_played=2, results=results
    )
    page = client.get(strip_of(run)).content.decode()
    assert words in page
    assert "on trip 3" in page
    assert HOSTILE not in page
    assert "no image" in page


def test_a_chain_without_any_score_still_shows_its_images(client, run):
    Chain.objects.filter(run=run).update(results={}, state=ChainState.PLAYING, trips_played=1)
    page = client.get(strip_of(run)).content.decode()
    assert "1 round trip of 3 played so far" in page
    assert "not scored yet" in page
    assert reverse("image", args=["copy", "0" * 64])[:-64] in page


def test_links_between_cases_lead_only_to_cases_of_the_run(client, run):
    first, second, *_ = cases = list(run.suite.cases.order_by("position"))
    Chain.objects.filter(run=run, case=second).delete()
    page = client.get(strip_of(run, first)).content.decode()
    assert f"/runs/{run.pk}/cases/{second.pk}/" not in page
    assert all(
        client.get(address).status_code == 200
        for address in re.findall(rf'href="(/runs/{run.pk}/cases/[0-9]+/)', page)
    )
    assert f"of {len(cases) - 1}" in page


def test_a_suite_published_elsewhere_has_no_images_and_no_error(client):
    suite = make_suite(images=1)
    run = make_run("Other", suite, chains=True)
    page = client.get(strip_of(run)).content.decode()
    assert "no image" in page
    assert 'id="viewer"' not in page
    assert client.get(reverse("case", args=[suite.cases.first().pk])).status_code == 200


def test_a_repeat_is_chosen_by_its_number_and_nonsense_is_ignored(client):
    run = play("noise", factories.tiny_suite(repeats=2))
    address = strip_of(run)
    chains = run.chains.filter(case=run.suite.cases.first()).order_by("repeat")
    second = chains[1].trips.first().restored.thumbnail_url
    assert second in client.get(f"{address}?repeat=1").content.decode()
    for nonsense in ("?repeat=9", "?repeat=x", "?metric=%ff", "?metric=lpips&repeat=-1"):
        assert client.get(address + nonsense).status_code == 200
    assert client.get(f"{address}?repeat=1")["X-Robots-Tag"] == "noindex"


def test_the_viewer_frames_and_describes_the_deciding_window(client, run):
    trips = Trip.objects.filter(chain=run.chains.first())
    trips.update(window=[0.25, 0.5, 0.41667, 0.66667], because="object")
    page = client.get(strip_of(run)).content.decode()
    assert 'data-window="0.25 0.5 0.41667 0.66667"' in page
    assert "most lost: objects" in page


# The JPEG that loses as much


def test_the_jpeg_is_the_source_saved_at_that_quality(client, run):
    source = run.suite.images.first().stored
    response = client.get(reverse("jpeg", args=[source.sha256, 5]))
    assert response["Content-Type"] == "image/jpeg"
    assert "must-revalidate" in response["Cache-Control"]
    assert "sandbox" in response["Content-Security-Policy"]
    image = Image.open(io.BytesIO(response.content))
    assert image.size == (source.width, source.height)
    better = client.get(reverse("jpeg", args=[source.sha256, 90]))
    assert len(better.content) > len(response.content)


@pytest.mark.parametrize("quality", ["0", "00", "96", "99", "100", "-1", "5.5", "x", "%35"])
def test_no_other_quality_is_encoded(client, run, quality):
    source = run.suite.images.first().stored
    address = reverse("jpeg", args=[source.sha256, 1]).removesuffix("1") + quality
    response = client.get(address)
    assert response.status_code == (200 if quality == "%35" else 404)


def test_only_images_of_suites_are_encoded(client, run):
    answer = StoredImage.objects.exclude(suite_images__isnull=False).first()
    assert client.get(reverse("jpeg", args=[answer.sha256, 50])).status_code == 404
    assert client.get(reverse("jpeg", args=["0" * 64, 50])).status_code == 404


def test_a_jpeg_is_encoded_once(client, run, monkeypatch):
    source = run.suite.images.first().stored
    address = reverse("jpeg", args=[source.sha256, 7])
    first = client.get(address).content
    monkeypatch.setattr("leaderboard.views.cases.encode_jpeg", lambda *_: pytest.fail("again"))
    assert client.get(address).content == first


LADDER = {"95": 0.01, "50": 0.1, "10": 0.3, "1": 0.6}


@given(st.floats(0, 10, allow_nan=False))
def test_the_quality_to_show_can_always_be_encoded(distance):
    found = strips.jpeg(distance, {int(q): d for q, d in LADDER.items()})
    if distance == 0:
        assert found is None
    else:
        assert found.quality in strips.JPEG_QUALITIES
        assert str(found.quality) in found.caption


@pytest.mark.parametrize(
    ("quality", "words"),
    [
        (None, "worse than one JPEG save at the lowest quality"),
        (0.0, "worse than one JPEG save at the lowest quality"),
        (1.0, "like one JPEG save at quality 1"),
        (8.3, "like one JPEG save at quality 8"),
        (95.0, "like one JPEG save at quality 95"),
        (97.0, "less than one JPEG save at quality 95"),
        (100.0, "nothing: no loss"),
    ],
)
def test_jpeg_qualities_read_as_sentences(quality, words):
    assert strips.like_jpeg(quality) == words


def test_a_frame_reports_what_each_witness_saw():
    said = {"witness": "parsing", "thing": "glasses", "gates": True}
    trip = Trip(number=1, evidence=[{**said, "made": True, "undone": False}])
    frame = strips.Frame(trip, 0.9, "", None)
    assert frame.made == [("glasses: edit made, by face parsing", True)]
    assert frame.undone == [("glasses: not undone, by face parsing", False)]
    silent = strips.Frame(
        Trip(number=1, evidence=[{**said, "made": None, "undone": None}]), 1, "", None
    )
    assert silent.made == silent.undone == []
    forgotten = Trip(
        number=1, evidence=[{**said, "witness": "crystal", "made": False, "undone": None}]
    )
    assert strips.Frame(forgotten, 1, "", None).made == [
        ("glasses: edit not made, by crystal", False)
    ]
