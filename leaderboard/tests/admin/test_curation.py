"""Curation: each refusal gives its reason, a frozen suite stays, nothing is half-saved."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from PIL import Image

from evaluation.content import catalog, curation
from leaderboard.content import drafts, loading
from leaderboard.models import Case, EditPair, SourceImage, StoredImage, Suite
from leaderboard.models.suites import Curation, Frozen

pytestmark = pytest.mark.django_db
FIELDS = {
    "title": "A table",
    "slug": "a-table",
    "kind": "object",
    "made": "real",
    "licence": "CC0-1.0",
    "attribution": "somebody",
    "contains": "a cup, chair, ",
    "status": "active",
}


def png(seed: int = 1, size: tuple[int, int] = (640, 480)) -> bytes:
    coarse = np.random.default_rng(seed).integers(0, 255, (12, 16, 3)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(buffer, "PNG")
    return buffer.getvalue()


def add_image(slug: str, seed: int, **fields: object) -> SourceImage:
    row = {"slug": slug, "title": slug, "kind": "object", "licence": "CC0-1.0", "attribution": "x"}
    return loading.add_source_image(row | {"status": Curation.ACTIVE} | fields, png(seed))


@pytest.fixture
def curator(client):
    user = User.objects.create_user("ada", password="x", is_staff=True)
    user.groups.add(Group.objects.get(name="curator"))
    client.force_login(user)
    return client


@pytest.fixture
def content():
    for number in range(4):
        add_image(f"image-{number}", number)
    for name in ("red ball", "book"):
        EditPair.objects.create(
            slug=name.replace(" ", "-"),
            title=name,
            category="objects",
            forward=f"Add a {name}.",
            backward=f"Remove the {name}.",
            object=name,
            absent=[name],
            status=Curation.ACTIVE,
        )


def upload(client, data: bytes, **fields: str):
    file = SimpleUploadedFile("../../etc/passwd.png", data, "image/png")
    return client.post(
        reverse("admin:leaderboard_sourceimage_add"), FIELDS | fields | {"file": file}
    )


def test_an_image_is_stored_by_its_content_never_by_the_uploaded_name(curator):
    assert upload(curator, png()).status_code == 302
    stored = SourceImage.objects.get().stored
    assert stored.name == f"originals/{stored.sha256[:2]}/{stored.sha256}.png"
    assert stored.read().decoded.size == (640, 480)
    assert SourceImage.objects.get().contains == ["a cup", "chair"]
    assert curator.get(stored.thumbnail_url)["Content-Type"] == "image/webp"


@pytest.mark.parametrize(
    ("data", "fields", "message"),
    [
        (png(size=(80, 60)), {}, "pixels"),
        (b"GIF89a" + b"\0" * 50, {}, "not a PNG, JPEG or WebP image"),
        (png()[:3000], {}, "cannot be decoded"),
        (png(), {"licence": ""}, "required"),
    ],
)
def test_each_refusal_gives_its_reason_and_stores_nothing(curator, data, fields, message):
    answer = upload(curator, data, **fields)
    assert answer.status_code == 200
    assert message.lower() in answer.content.decode().lower()
    assert not SourceImage.objects.exists()
    assert not StoredImage.objects.exists()


def test_a_missing_licence_is_one_error_and_asks_for_the_file_again(curator):
    form = upload(curator, png(), licence="").context["adminform"].form
    assert form.errors["licence"] == ["This field is required."]
    assert form.errors["file"] == ["Correct the other fields, then choose the file again."]


def test_near_flat_images_are_refused(curator):
    buffer = io.BytesIO()
    Image.new("RGB", (640, 480), (200, 10, 10)).save(buffer, "PNG")
    assert "nearly one colour" in upload(curator, buffer.getvalue()).content.decode()


def test_a_near_duplicate_is_refused_and_names_the_other(curator):
    add_image("first", 1)
    again = io.BytesIO()
    Image.open(io.BytesIO(png(1))).save(again, "JPEG", quality=70)
    assert "first" in upload(curator, again.getvalue()).content.decode()
    assert SourceImage.objects.count() == 1


def test_a_conflict_of_two_editors_of_one_row_is_reported(curator, content):
    pair = EditPair.objects.get(slug="book")
    page = reverse("admin:leaderboard_editpair_change", args=[pair.pk])
    form = curator.get(page).context["adminform"].form
    sent = {n: v for n, v in form.initial.items() if v is not None}
    sent |= {"absent": "book"}
    pair.title = "Changed by somebody else"
    pair.save()
    answer = curator.post(page, sent | {"title": "Mine"})
    assert "after you opened the page" in answer.content.decode()
    assert EditPair.objects.get(pk=pair.pk).title == "Changed by somebody else"


def test_a_suite_is_drafted_previewed_frozen_and_then_immutable(curator, content):
    draft = {
        "title": "Mine",
        "slug": "mine",
        "version": "1",
        "trips": "3",
        "size": "128",
        "repeats": "1",
        "importance": "0",
        "cases": "5",
        "seed": "1",
    }
    assert curator.post(reverse("admin:leaderboard_suite_add"), draft).status_code == 302
    suite = Suite.objects.get(slug="mine")
    preview = curator.get(reverse("admin:leaderboard_suite_preview", args=[suite.pk]))
    assert "5 cases" in preview.content.decode()
    assert "30 edits" in preview.content.decode()
    assert "no category may have more than a quarter" in preview.content.decode()
    refused = curator.post(
        reverse("admin:leaderboard_suite_freeze", args=[suite.pk]), {"looked": "on"}, follow=True
    ).content.decode()
    assert "4 images are too few to compare models" in refused
    assert not Suite.objects.get(slug="mine").is_frozen
    curator.post(
        reverse("admin:leaderboard_suite_change", args=[suite.pk]), draft | {"narrow": "on"}
    )
    freeze = reverse("admin:leaderboard_suite_freeze", args=[suite.pk])
    assert "confirm that you have checked" in curator.post(freeze, follow=True).content.decode()
    assert not Suite.objects.get(slug="mine").is_frozen
    curator.post(freeze, {"looked": "on"})
    suite = Suite.objects.get(slug="mine")
    assert suite.is_frozen
    assert suite.core.content_hash == suite.content_hash
    assert suite.cases.count() == 5

    page = reverse("admin:leaderboard_suite_change", args=[suite.pk])
    assert 'name="trips"' not in curator.get(page).content.decode()
    curator.post(
        page, {"description": "Better words", "importance": "3", "stop_after": "3", "trips": "99"}
    )
    fresh = Suite.objects.get(pk=suite.pk)
    assert (fresh.description, fresh.importance, fresh.trips) == ("Better words", 3, 3)

    fresh.trips = 99
    with pytest.raises(Frozen, match="trips cannot change"):
        fresh.save()
    with pytest.raises(Frozen, match="cannot be deleted"):
        fresh.delete()
    assert (
        curator.post(reverse("admin:leaderboard_suite_delete", args=[suite.pk])).status_code == 403
    )


def test_edits_that_cannot_be_seen_are_listed_and_frozen_only_on_purpose(
    curator, content, monkeypatch
):
    monkeypatch.setattr(drafts, "CHECKING_EDITOR", "noop")  # makes no edit that could be seen
    suite = Suite.objects.create(
        slug="s", title="S", trips=2, size=128, filters={"cases": 4, "narrow": True}
    )
    page = curator.get(reverse("admin:leaderboard_suite_preview", args=[suite.pk])).content.decode()
    assert "4 of 4 edits are too small to be seen at 128 px" in page
    assert page.count("not seen at 128 px") == 4
    freeze = reverse("admin:leaderboard_suite_freeze", args=[suite.pk])
    refused = curator.post(freeze, {"looked": "on"}, follow=True).content.decode()
    assert "some edits are too small to be seen" in refused
    assert not Suite.objects.get().is_frozen
    curator.post(freeze, {"looked": "on", "unseen": "on"})
    assert Suite.objects.get().is_frozen


def test_a_long_preview_shows_its_progress(curator, content, monkeypatch):
    suite = Suite.objects.create(
        slug="s", title="S", trips=2, size=120, filters={"cases": 4, "narrow": True}
    )
    address = reverse("admin:leaderboard_suite_preview", args=[suite.pk])
    monkeypatch.setattr("leaderboard.admin.suites.PREVIEW_SECONDS", -1)
    answer = curator.get(address)
    assert "Reading images: 0 of" in answer.content.decode()
    assert answer["Refresh"] == "1"
    monkeypatch.setattr("leaderboard.admin.suites.PREVIEW_SECONDS", 600)
    assert "4 cases" in curator.get(address).content.decode()


def test_freezing_warns_of_a_one_sided_suite(curator, content):
    suite = Suite.objects.create(
        slug="s", title="S", trips=2, size=128, filters={"cases": 4, "narrow": True}
    )
    page = curator.get(reverse("admin:leaderboard_suite_preview", args=[suite.pk]))
    assert "images, more than a third from one origin" in page.content.decode()
    frozen = curator.post(
        reverse("admin:leaderboard_suite_freeze", args=[suite.pk]), {"looked": "on"}, follow=True
    )
    assert "One-sided. " in frozen.content.decode()


def test_a_frozen_suite_keeps_its_prompts_when_the_pair_changes(content):
    suite = drafts.freeze(
        Suite.objects.create(
            slug="s", title="S", trips=2, size=128, filters={"cases": 4, "narrow": True}
        )
    )
    EditPair.objects.update(forward="Something else.")
    assert not Case.objects.filter(suite=suite, forward="Something else.").exists()
    following = drafts.next_version(suite)
    assert following.version == 2
    assert drafts.preview(following).suite.content_hash != suite.content_hash


def test_a_second_preview_of_a_draft_opens_no_image(content, monkeypatch):
    suite = Suite.objects.create(slug="s", title="S", trips=2, size=128, filters={"cases": 4})
    first = drafts.preview(suite).suite

    def opened(*args):
        raise AssertionError("an image was opened")

    monkeypatch.setattr(StoredImage, "read", opened)
    assert drafts.preview(suite).suite == first
    suite.size = 64
    with pytest.raises(AssertionError, match="opened"):
        drafts.preview(suite)


def test_an_image_has_a_page_to_change_it_without_a_new_file(curator, content):
    source = SourceImage.objects.first()
    page = reverse("admin:leaderboard_sourceimage_change", args=[source.pk])
    shown = curator.get(page)
    assert shown.status_code == 200
    assert 'name="file"' not in shown.content.decode()


def test_a_draft_without_cases_is_explained(curator, content):
    suite = Suite.objects.create(slug="s", title="S", filters={"kinds": ["face"]})
    answer = curator.get(reverse("admin:leaderboard_suite_preview", args=[suite.pk]))
    assert "no image fits any pair" in answer.content.decode()


def test_a_pair_written_as_words_reads_back_unchanged(curator, content):
    pair = EditPair.objects.get(slug="book")
    page = reverse("admin:leaderboard_editpair_change", args=[pair.pk])
    form = curator.get(page).context["adminform"].form
    sent = {name: value for name, value in form.initial.items() if value is not None}
    sent |= {"kinds": ["face", "scene"], "absent": "book, shelf\nbook", "present": "table"}
    sent |= {"variants-count": "3", "variants-0-name": "short", "variants-0-forward": "A book!"}
    answer = curator.post(page, sent)
    assert "Wording 1 lacks: backward" in answer.content.decode()
    assert "A book!" in answer.content.decode()
    assert curator.post(page, sent | {"variants-0-backward": "No book!"}).status_code == 302
    pair.refresh_from_db()
    assert (pair.kinds, pair.absent, pair.present) == (
        ["face", "scene"],
        ["book", "shelf"],
        ["table"],
    )
    assert pair.variants == [{"name": "short", "forward": "A book!", "backward": "No book!"}]
    assert "book, shelf" in curator.get(page).content.decode()


def test_a_suite_includes_a_new_image_and_pair_that_it_must_include(curator, content):
    draft = {"title": "M", "slug": "m", "version": "1", "trips": "3", "size": "128"}
    draft |= {"repeats": "1", "importance": "0", "cases": "1", "seed": "0"}
    for number in range(4):
        wish = {"must_images": f"image-{number}", "must_pairs": "red-ball"}
        sent = draft | wish | {"slug": f"m-{number}"}
        assert curator.post(reverse("admin:leaderboard_suite_add"), sent).status_code == 302
        suite = Suite.objects.get(slug=f"m-{number}")
        page = curator.get(reverse("admin:leaderboard_suite_preview", args=[suite.pk]))
        assert [case.slug for case in page.context["core"].cases] == [f"image-{number}--red-ball"]
        shown = page.content.decode()
        assert shown.index(SourceImage.objects.get(slug=f"image-{number}").stored.pk) < (
            shown.index("Freezing publishes")
        )
    EditPair.objects.filter(slug="red-ball").update(status=Curation.RETIRED)
    assert "the required" in curator.get(page.request["PATH_INFO"]).content.decode()


def test_undoing_a_bulk_change_keeps_later_changes(curator, content):
    page = reverse("admin:leaderboard_editpair_changelist")
    SourceImage.objects.filter(slug="image-0").update(status=Curation.DRAFT)
    for model, name in ((EditPair, "editpair"), (SourceImage, "sourceimage")):
        page = reverse(f"admin:leaderboard_{name}_changelist")
        before = dict(model.objects.values_list("pk", "status"))
        data = {"action": "retire", "_selected_action": list(before)}
        text = curator.post(page, data, follow=True).content.decode()
        assert set(model.objects.values_list("status", flat=True)) == {Curation.RETIRED}
        change = re.search('name="change" value="([^"]+)"', text)[1]
        first = model.objects.first()
        model.objects.filter(pk=first.pk).update(status=Curation.DRAFT)
        undo = reverse(f"admin:leaderboard_{name}_undo")
        assert "1 changed since" in curator.post(undo, {"change": change}, follow=True).text
        assert dict(model.objects.values_list("pk", "status")) == (
            before | {first.pk: Curation.DRAFT}
        )
        assert "too old" in curator.post(undo, {"change": change + "x"}, follow=True).text


def test_rows_of_frozen_suites_are_retired_and_not_deleted(curator, content):
    filters = {"cases": 4, "narrow": True}
    drafts.freeze(Suite.objects.create(slug="s", title="S", trips=2, size=128, filters=filters))
    for model, name in ((EditPair, "editpair"), (SourceImage, "sourceimage")):
        row = model.objects.filter(
            pk__in=Case.objects.values("edit_pair" if model is EditPair else "image__source_image")
        ).first()
        page = reverse(f"admin:leaderboard_{name}_delete", args=[row.pk])
        assert "of frozen suites. Retire it instead." in curator.get(page).text
        curator.post(page, {"post": "yes"})
        bulk = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
        curator.post(reverse(f"admin:leaderboard_{name}_changelist"), bulk)
        assert model.objects.filter(pk=row.pk).exists()


def test_a_pair_that_does_not_undo_itself_is_saved_with_a_warning(curator, content):
    pair = EditPair.objects.get(slug="red-ball")
    page = reverse("admin:leaderboard_editpair_change", args=[pair.pk])
    initial = curator.get(page).context["adminform"].form.initial
    sent = {name: value for name, value in initial.items() if value is not None}
    sent |= {"absent": "ball"}
    assert "does not remove it" not in curator.post(page, sent, follow=True).text
    sent |= {"seen_at": "", "backward": "Add a blue ball."}
    assert "does not remove it" in curator.post(page, sent, follow=True).text


def test_two_pairs_cannot_share_a_title(curator, content):
    pair = EditPair.objects.get(slug="red-ball")
    page = reverse("admin:leaderboard_editpair_change", args=[pair.pk])
    initial = curator.get(page).context["adminform"].form.initial
    sent = {name: value for name, value in initial.items() if value is not None}
    refused = curator.post(page, sent | {"title": "BOOK"})
    assert "The pair book has this title" in refused.text


def test_no_shipped_pair_gets_the_warning():
    assert not list(filter(None, map(curation.doubt_about, catalog.edit_pairs())))


def test_pairs_are_made_in_bulk_from_a_template(curator):
    page = reverse("admin:leaderboard_editpair_template")
    form = {
        "objects": "a red ball\nan umbrella\n",
        "forward": "Add {object}.",
        "backward": "Remove {name}.",
        "category": "objects",
    }
    assert "Remove the umbrella." in curator.post(page, form).content.decode()
    assert not EditPair.objects.exists()
    curator.post(page, form | {"save": "1"})
    assert EditPair.objects.get(slug="red-ball").forward == "Add a red ball."
    again = curator.post(page, form | {"save": "1"})
    assert "These already exist" in again.content.decode()
    assert EditPair.objects.count() == 2


def test_a_template_with_an_unknown_field_is_refused(curator):
    form = {
        "objects": "a cup",
        "forward": "Add {thing}.",
        "backward": "x {name}",
        "category": "text",
    }
    answer = curator.post(reverse("admin:leaderboard_editpair_template"), form)
    assert "{name} (the red ball) only" in answer.content.decode()


def test_three_bad_rows_of_many_save_nothing_and_are_listed(curator):
    lines = ["slug,title,category,forward,backward,change,reversibility,status"]
    for number in range(50):
        category = "nonsense" if number in (3, 17, 40) else "objects"
        lines.append(
            f"p{number},P {number},{category},Add {number}.,Remove {number}.,local,clean,draft"
        )
    file = SimpleUploadedFile("pairs.csv", "\n".join(lines).encode(), "text/csv")
    answer = curator.post(
        reverse("admin:leaderboard_editpair_import"), {"format": "0", "import_file": file}
    )
    text = answer.content.decode()
    assert text.count("is not a valid choice") == 3
    assert "Confirm import" not in text
    assert not EditPair.objects.exists()


def test_lists_take_the_same_queries_for_any_number_of_rows(
    curator, content, django_assert_max_num_queries
):
    for model in ("sourceimage", "editpair", "suite"):
        with django_assert_max_num_queries(12):
            assert curator.get(reverse(f"admin:leaderboard_{model}_changelist")).status_code == 200


def test_the_fits_page_gives_the_reasons(curator, content):
    SourceImage.objects.filter(slug="image-0").update(contains=["Book"])
    pair = EditPair.objects.get(slug="book")
    text = curator.get(reverse("admin:leaderboard_editpair_fits", args=[pair.pk])).content.decode()
    assert "fits 3 of 4 active" in text
    assert "contains “book”" in text


def test_a_curator_may_not_touch_runs_and_an_operator_may_not_touch_pairs(curator, client):
    assert curator.get(reverse("admin:leaderboard_editingmodel_add")).status_code == 403
    user = User.objects.create_user("bob", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)
    assert client.get(reverse("admin:leaderboard_editpair_add")).status_code == 403


def test_every_change_is_in_the_history(curator, content):
    pair = EditPair.objects.get(slug="book")
    curator.post(
        reverse("admin:leaderboard_editpair_changelist"),
        {"action": "retire", "_selected_action": [pair.pk]},
    )
    assert EditPair.objects.get(pk=pair.pk).status == Curation.RETIRED
    last = pair.history.first()
    assert (last.status, last.history_user.username) == ("retired", "ada")
