"""Bundles: written from a run, verified by anyone, imported elsewhere as external runs."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation.__main__ import main as convergebench
from evaluation.bundle import document as bundles
from evaluation.bundle.checks import DIFFERENT, NOT_CHECKED
from evaluation.bundle.verify import verify
from evaluation.images import EncodedImage
from leaderboard.models import Calibration, Run, Score, Standing, Suite, Trip
from leaderboard.testing import factories
from leaderboard.testing.bundle_runs import (
    WINTER,
    altered,
    bundle_of,
    bundled_suite,
    rewritten,
)
from leaderboard.testing.played import QUICK, QUICK_WITNESSES, play
from leaderboard.views import downloads as views

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_metrics")]


@dataclass(frozen=True)
class Packed:
    """A run played once for all tests: its bundles, and the numbers that its site showed."""

    images: Path
    numbers: Path
    shown: list[Any]


@pytest.fixture(scope="module")
def packed(tmp_path_factory, django_db_setup, django_db_blocker) -> Packed:
    folder = tmp_path_factory.mktemp("bundles")
    quick = override_settings(METRICS=QUICK, WITNESSES=QUICK_WITNESSES)
    with django_db_blocker.unblock(), quick, transaction.atomic():
        run = play("jpeg", bundled_suite())
        images = bundle_of(run, folder)
        numbers = bundle_of(run, folder, images=False)
        result = Packed(images, numbers, shown(run))
        transaction.set_rollback(True)
    return result


def shown(run: Run) -> list[Any]:
    rows = run.standings.order_by("metric__name", "threshold", "scope")
    return list(rows.values_list("half_life", "usable_trips", "auc", "auc_low", "counts"))


def differing(path: Path) -> list[str]:
    with bundles.read(path) as bundle:
        return [f"{c.line}, {c.what}" for c in verify(bundle) if c.verdict == DIFFERENT]


# Writing


@pytest.fixture
def run() -> Run:
    """Return a small run in the database."""
    return play("jpeg", factories.tiny_suite(1, trips=1))


def test_a_finished_run_always_gives_the_same_bytes(run, tmp_path):
    first = bundle_of(run, tmp_path).read_bytes()
    assert bundle_of(run, tmp_path).read_bytes() == first
    out = tmp_path / "x.zip"
    call_command("export_results", "bundle", str(run.pk), str(out))
    assert out.read_bytes() == first
    Run.objects.update(state="paused")
    with pytest.raises(CommandError, match="is paused, not finished"):
        call_command("export_results", "bundle", str(run.pk), str(tmp_path / "y.zip"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"run-{run.pk}.zip", "x.zip"]


def test_a_bundle_contains_every_prompt_hash_score_and_image(run, tmp_path):
    with bundles.read(bundle_of(run, tmp_path)) as bundle:
        document = bundle.document
        assert bundle.suite.content_hash == run.suite.content_hash
        assert document.run.metrics == run.metrics
        assert sum(len(t.scores) for c in document.chains for t in c.trips) == Score.objects.count()
        assert len(document.standings) == Standing.objects.count()
        edit = document.chains[0].trips[0].forward
        assert edit.prompt == factories.FLIP.forward
        assert edit.attempts == 1
        assert EncodedImage.from_bytes(bundle.image(edit.sha256)).size == (64, 64)


def test_a_bundle_contains_no_secret(run, tmp_path):
    model = run.editing_model
    model.options = {"url": "https://example.com/v1/secret-path", "note": "kept"}
    model.api_key = "sk-canary"
    model.save()
    with zipfile.ZipFile(bundle_of(run, tmp_path)) as archive:
        text = archive.read(bundles.DOCUMENT).decode()
    assert "canary" not in text
    assert "secret-path" not in text
    assert "kept" in text


def test_the_page_sends_public_runs_without_images_by_default(run, client, monkeypatch):
    def got(query: str = "") -> bytes:
        return b"".join(client.get(f"/runs/{run.pk}/bundle.zip{query}").streaming_content)

    assert zipfile.ZipFile(io.BytesIO(got())).namelist() == [bundles.DOCUMENT]
    assert len(zipfile.ZipFile(io.BytesIO(got("?images=1"))).namelist()) > 4
    monkeypatch.setattr(views, "MAX_IMAGE_BYTES", 1000)
    answer = client.get(f"/runs/{run.pk}/bundle.zip?images=1")
    assert answer.status_code == 413
    assert f"manage.py export_results bundle {run.pk}" in answer.content.decode()
    Run.objects.update(published=False)
    assert client.get(f"/runs/{run.pk}/bundle.zip").status_code == 404


# Verifying


def test_every_number_of_an_honest_bundle_is_recomputed(packed, capsys):
    assert convergebench(["verify", str(packed.images)]) == 0
    said = capsys.readouterr().out
    assert "0 different, 0 not checked. Every number was recomputed and is equal." in said
    assert "equal        image-0--flip, trip 2, ssim\n" in said


@pytest.mark.parametrize(
    "editor", ["jpeg", "oracle"]
)  # the oracle drifts only by the dither of transmitted images
def test_style_edits_refusals_and_repeats_recompute_as_well(editor, tmp_path):
    pairs = (factories.REPLICA, WINTER)
    run = play(editor, factories.tiny_suite(2, pairs, trips=2, repeats=2))
    assert {chain.outcome for chain in run.chains.all()} >= {"completed"}
    styled = Trip.objects.filter(chain__run=run, chain__case__pair_slug=WINTER.slug)
    assert set(styled.values_list("change_seen", flat=True)) == {True}
    assert differing(bundle_of(run, tmp_path)) == []


def test_an_altered_drift_is_named(tmp_path):
    run = play("jpeg", factories.tiny_suite(2, (factories.REPLICA, WINTER), trips=1))

    def steadier(document: dict[str, Any]) -> None:
        for chain in document["chains"]:
            for trip in chain["trips"]:
                if "identity_drift" in trip["change_measure"]:
                    trip["change_measure"]["identity_drift"] /= 2

    result = differing(altered(bundle_of(run, tmp_path), steadier, sealed=True))
    assert len(result) == 2
    assert all(line.endswith(", identity drift") for line in result)


def test_one_altered_byte_in_one_score_fails_and_names_the_line(packed, capsys):
    path = packed.numbers
    with zipfile.ZipFile(path) as archive:
        text = archive.read(bundles.DOCUMENT).decode()
    document = json.loads(text)
    score = document["chains"][3]["trips"][1]["scores"]["ssim"]
    digit = f"{score!r}"[-1]
    wrong = f"{score!r}"[:-1] + str((int(digit) + 1) % 10)
    assert text.count(f'"ssim": {score!r}') == 1
    text = text.replace(f'"ssim": {score!r}', f'"ssim": {wrong}')
    assert convergebench(["verify", str(rewritten(path, {bundles.DOCUMENT: text.encode()}))]) == 1
    named = "image-1--replica, trip 2, digest: the line was changed after it was written"
    assert f"different    {named}" in capsys.readouterr().out


def test_recomputed_digests_do_not_hide_altered_scores_with_images(packed):
    def better(document: dict[str, Any]) -> None:
        document["chains"][3]["trips"][1]["scores"]["ssim"] *= 0.9

    result = differing(altered(packed.images, better, sealed=True))
    assert "image-1--replica, trip 2, ssim" in result
    assert "chain image-1--replica, retention and events by ssim" in result
    assert "standing ssim at 0.5, all, numbers" in result


def test_seeds_that_do_not_follow_from_the_secret_are_named(packed):
    def another_seed(document: dict[str, Any]) -> None:
        document["chains"][0]["trips"][1]["backward"]["seed"] += 1

    def another_secret(document: dict[str, Any]) -> None:
        document["run"]["secret"] = "5" * 64

    chain = "image-0--flip"
    result = differing(altered(packed.numbers, another_seed, sealed=True))
    assert result == [f"{chain}, trip 2, backward seed"]
    result = differing(altered(packed.numbers, another_secret, sealed=True))
    assert "run, secret" in result
    assert f"{chain}, trip 1, forward seed" in result


def test_without_images_only_sums_are_checked(packed):
    path = packed.numbers
    with bundles.read(path) as bundle:
        checks = list(verify(bundle))
    assert not [c for c in checks if c.verdict == DIFFERENT]
    reasons = {c.detail for c in checks if c.verdict == NOT_CHECKED}
    assert reasons == {"no images in the bundle"}

    def longer(document: dict[str, Any]) -> None:
        document["standings"][0]["half_life"] = 99.0

    assert len(differing(altered(path, longer, sealed=True))) == 1


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("suite, content hash", lambda d: d["suite"]["definition"].update(trips=3)),
        (
            "image-0--flip, trip 1, forward prompt",
            lambda d: d["chains"][0]["trips"][0]["forward"].update(prompt="Do nothing."),
        ),
        (
            "image-0--flip, trip 1, change seen",
            lambda d: d["chains"][0]["trips"][0].update(change_seen=False),
        ),
        (
            "calibration image-0 by psnr, numbers",
            lambda d: d["calibrations"][0].update(blank=0.5),
        ),
        ("standing psnr at 0.25, all, numbers", lambda d: d["standings"].pop(0)),
        ("bundle, digest of all lines", lambda d: d.update(digest="0" * 64)),
    ],
)
def test_every_alteration_is_named(packed, what, change):
    path = packed.images
    resealed = "bundle" not in what
    assert what in differing(altered(path, change, sealed=resealed))


def test_a_swapped_image_is_found_by_its_hash(packed):
    path = packed.images
    with bundles.read(path) as bundle:
        edit = bundle.document.chains[0].trips[1].backward
    other = EncodedImage.from_image(factories.drawn_image(99)).data
    name = bundles.image_name(edit.sha256, edit.mime)
    assert "image-0--flip, trip 2, backward, hash" in differing(rewritten(path, {name: other}))


def test_another_version_of_a_metric_is_not_compared(packed):
    def older(document: dict[str, Any]) -> None:
        document["run"]["metrics"]["psnr"]["version"] = "0"

    with bundles.read(altered(packed.images, older, sealed=True)) as bundle:
        checks = list(verify(bundle))
    reasons = {c.detail for c in checks if c.verdict == NOT_CHECKED}
    assert len(reasons) == 1
    assert reasons.pop().startswith("scored by version 0, but")
    assert not [c for c in checks if c.verdict == DIFFERENT]


def test_the_checks_are_available_as_json(packed, capsys):
    path = packed.numbers
    assert convergebench(["verify", "--json", str(path)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["verified"] is None
    assert result["different"] == 0
    assert {"line", "what", "verdict", "detail"} == set(result["checks"][0])


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Yield every (container, key) of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    result = [(value, key) for key, _ in items]
    inner = (v for v in (value.values() if isinstance(value, dict) else value))
    return result + [n for v in inner if isinstance(v, dict | list) for n in nodes(v)]


ODD = st.sampled_from(
    [None, True, -1, 0, 10**9, 1e308, "", "x" * 300, "\ud800", "0" * 64, [], {}, [[]], {"a": 1}]
)


@pytest.mark.fuzz
@settings(
    max_examples=max(12, settings().max_examples // 40),
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(data=st.data())
def test_no_document_crashes_the_check(packed, data):
    with bundles.read(packed.numbers) as bundle:
        document = json.loads(json.dumps(bundle.raw))
    places = nodes({k: v for k, v in document.items() if k != "standings"})
    for place in data.draw(st.lists(st.integers(0, len(places) - 1), min_size=1, max_size=3)):
        holder, key = places[place]
        holder[key] = data.draw(ODD)
    with contextlib.suppress(
        LookupError, TypeError, AttributeError
    ):  # such a document cannot be sealed
        document = bundles.sealed(document)
    content = json.dumps(document).encode()
    path = rewritten(packed.numbers, {bundles.DOCUMENT: content})
    with contextlib.suppress(bundles.BundleError), bundles.read(path) as bundle:
        assert list(verify(bundle))


@pytest.mark.parametrize("letter", ["\0", "\ud800"])
def test_text_that_no_database_stores_is_refused_first(packed, letter):
    with bundles.read(packed.numbers) as bundle:
        document = json.loads(json.dumps(bundle.raw))
    document["suite"]["definition"]["title"] += letter
    path = rewritten(packed.numbers, {bundles.DOCUMENT: json.dumps(document).encode()})
    with (
        pytest.raises(bundles.BundleError, match="a lone surrogate"),
        bundles.read(path) as bundle,
    ):
        list(verify(bundle))


# Importing


def imported(path: Path, *options: str) -> str:
    out = io.StringIO()
    call_command("import_results", "bundle", str(path), *options, stdout=out, stderr=out)
    return out.getvalue()


def test_a_bundle_becomes_an_external_verified_run_on_another_site(packed, client):
    said = imported(packed.images)
    new = Run.objects.get()
    assert "verified: every number was recomputed" in said
    assert (new.source, new.verified, new.complete) == (Run.Source.EXTERNAL, True, True)
    assert not new.is_ranked
    assert shown(new) == packed.shown
    assert b"numbers checked" in client.get("/").content
    case = new.chains.first().case_id
    assert client.get(f"/runs/{new.pk}/cases/{case}/").status_code == 200


def test_importing_a_bundle_twice_gives_one_run(packed):
    path = packed.images
    imported(path)
    assert "is already here" in imported(path)
    assert Run.objects.filter(source=Run.Source.EXTERNAL).count() == 1


def test_an_imported_run_never_takes_the_place_of_ours(run, tmp_path):
    imported(bundle_of(run, tmp_path))
    assert Run.objects.get(current=True) == run


def test_a_bundle_without_images_is_unverified_and_an_altered_one_is_marked(packed, client):
    bundled_suite()
    path = packed.numbers
    imported(path, "--model", "somebody")

    def better(document: dict[str, Any]) -> None:
        document["chains"][0]["trips"][0]["scores"]["ssim"] *= 0.5

    with pytest.raises(CommandError, match="image-0--flip, trip 1, digest: the line was changed"):
        imported(altered(path, better), "--model", "liar")
    said = imported(altered(path, better), "--model", "liar", "--anyway")
    assert "image-0--flip, trip 1, digest" in said
    verified = Run.objects.filter(source=Run.Source.EXTERNAL).order_by("pk")
    assert list(verified.values_list("verified", flat=True)) == [None, False]
    page = client.get("/").content
    assert b"not checked yet" in page
    assert b"numbers not reproduced" in page
    case = verified[0].chains.first().case_id
    assert client.get(f"/runs/{verified[0].pk}/cases/{case}/").status_code == 200
    assert client.get(f"/runs/{verified[0].pk}/").status_code == 200


def test_an_altered_calibration_is_not_imported(packed):
    path = packed.images

    def harsher(document: dict[str, Any]) -> None:
        for row in document["calibrations"]:
            row["blank"] *= 10

    imported(altered(path, harsher, sealed=True), "--anyway")
    assert Run.objects.get().verified is False
    assert max(Calibration.objects.values_list("blank", flat=True)) < 1


def test_an_unknown_suite_without_its_images_is_refused(packed):
    path = packed.numbers
    with pytest.raises(CommandError, match="is not known here, and the bundle lacks its source"):
        imported(path)
    assert not Run.objects.exists()
    assert not Suite.objects.exists()
