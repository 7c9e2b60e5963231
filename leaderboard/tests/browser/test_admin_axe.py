"""Every page of the admin meets the standard of the public ones, whoever registered it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone

from leaderboard.content import loading
from leaderboard.models import (
    ApiToken,
    EditPair,
    PublishedFigure,
    Run,
    RunReview,
    SecurityEvent,
    Submission,
    Suite,
)
from leaderboard.models.runs import RunState
from leaderboard.testing import factories
from leaderboard.testing.browser import PHONE, WIDE, Visit
from leaderboard.testing.played import play
from leaderboard.testing.submission_fields import least_fields

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def filled(quick_metrics: None) -> User:
    """A row of nearly everything that the admin lists; who may see it all."""
    suite = factories.tiny_suite(images=1, trips=1, size=64)
    run = play("noise", suite)
    RunReview.objects.filter(pk=run.pk).update(flags=[{"text": "returns the source"}])
    other = play("jpeg", suite)
    paused = {"state": RunState.PAUSED, "reason": "budget", "reason_text": "The budget is spent."}
    Run.objects.filter(pk=other.pk).update(**paused)
    data = io.BytesIO()
    factories.drawn_image(3, 256).save(data, "PNG")
    loading.add_source_image(
        {"slug": "shelf", "title": "Shelf", "kind": "object", "licence": "CC0-1.0"}
        | {"attribution": "Somebody", "status": "active"},
        data.getvalue(),
    )
    EditPair.objects.create(
        slug="ball", title="Ball", category="objects", forward="Add a ball.", backward="Remove it."
    )
    Suite.objects.create(slug="draft", title="Draft")
    PublishedFigure.objects.create(
        model_name="Another", metric="lpips", trip=1, value=0.2, source="A paper"
    )
    fields = least_fields(suite)
    submission = Submission.objects.create(
        **{**fields, "suite": suite}, email="ada@example.org", state=Submission.State.REVIEW
    )
    Submission.objects.filter(pk=submission.pk).update(probed_at=timezone.now())
    SecurityEvent.record("endpoint refused", "a private address")
    ApiToken.objects.create(holder="Ada", email="ada@example.org", start="cb_", digest="0")
    return User.objects.create_superuser("root", password="a long password")


def pages(user: User) -> Iterator[str]:
    """The list, the form for a new row and a row's own form of each model, and our own pages."""
    request = RequestFactory().get("/")
    request.user = user
    for model, its in admin.site._registry.items():
        if model._meta.app_label == "django_rq":
            continue  # the library's own pages; the policy on them is tested elsewhere
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"{name}_changelist")
        if its.has_add_permission(request):
            yield reverse(f"{name}_add")
        if row := model._default_manager.order_by("pk").first():
            yield reverse(f"{name}_change", args=[row.pk])
    pair, submission = EditPair.objects.get(), Submission.objects.get()
    draft, frozen = Suite.objects.get(slug="draft"), Suite.objects.get(slug="tiny")
    run = Run.objects.order_by("pk")[0]
    for name, *key in (
        ("index",),
        ("password_change",),
        ("leaderboard_run_today",),
        ("leaderboard_run_history", run.pk),
        ("leaderboard_submission_review", submission.pk),
        ("leaderboard_editpair_template",),
        ("leaderboard_editpair_fits", pair.pk),
        ("leaderboard_editpair_delete", pair.pk),
        ("leaderboard_editpair_import",),
        ("leaderboard_editpair_export",),
        ("leaderboard_sourceimage_export",),
        ("leaderboard_suite_preview", draft.pk),
        ("leaderboard_suite_diagnostics", frozen.pk),
    ):
        yield reverse(f"admin:{name}", args=key)


def signed_in(visit: Any, client: Any, settings: Any, base: str, user: User, **look: Any) -> Visit:
    client.force_login(user)
    seen: Visit = visit("/livez", **look)
    name = settings.SESSION_COOKIE_NAME
    cookie = {"name": name, "value": client.cookies[name].value, "url": base}
    seen.page.context.add_cookies([cookie])
    return seen


def faults(seen: Visit, address: str) -> list[str]:
    answer = seen.page.goto(seen.base + address)
    seen.settle()
    found = [fault for fault in seen.faults() if "layout" not in fault]  # by Django's own scripts
    seen.complaints.clear()  # the checker's own: the policy stops it from styling a form too
    hidden = seen.page.evaluate(
        "[...document.querySelectorAll('.results')].some((e) => e.scrollWidth > e.clientWidth)"
    )
    found += ["the list is wider than its room"] if hidden else []
    return found + ([] if answer.status == 200 else [f"status {answer.status}"])


def test_axe_finds_nothing_on_any_admin_page(
    filled: User, visit: Any, client: Any, settings: Any, live_server: Any
) -> None:
    assert Group.objects.exists()
    seen = signed_in(visit, client, settings, live_server.url, filled, size=WIDE)
    found = {address: said for address in pages(filled) if (said := faults(seen, address))}
    assert found == {}


def test_what_is_used_most_fits_a_phone_in_the_dark(
    filled: User, visit: Any, client: Any, settings: Any, live_server: Any
) -> None:
    look = {"size": PHONE, "color_scheme": "dark"}
    seen = signed_in(visit, client, settings, live_server.url, filled, **look)
    review = reverse("admin:leaderboard_submission_review", args=[Submission.objects.get().pk])
    for address in ("/admin/", reverse("admin:leaderboard_run_today"), review):
        assert faults(seen, address) == []
