"""Admin of suites: write a draft with filters, preview and freeze it; then it is read-only."""

from __future__ import annotations

import time
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, Model, OuterRef, Prefetch, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.views.decorators.http import require_POST

from evaluation.content import suite_builder
from evaluation.content.suites import Suite as CoreSuite
from evaluation.content.suites import SuiteError
from leaderboard.admin.base import (
    DetectsConflicts,
    HistoryAdmin,
    ThumbnailChoices,
    WithPages,
    checkboxes,
    image_tag,
)
from leaderboard.content import drafts
from leaderboard.models import (
    Case,
    EditPair,
    PublishedFigure,
    Run,
    SourceImage,
    Suite,
    SuiteImage,
)
from leaderboard.models.suites import Category, Curation, Kind

#: After preparing a preview for this many seconds, a request shows the progress instead.
PREVIEW_SECONDS = 8
#: The maximum number of images shown per suite in the list of suites.
MAX_IMAGES = 4


class SuiteForm(DetectsConflicts):
    """A form with a field for each filter of a draft, instead of JSON."""

    cases = forms.IntegerField(
        label="Number of cases", min_value=1, max_value=5000, initial=drafts.DEFAULT_CASES
    )
    seed = forms.IntegerField(
        label="Sampling seed",
        min_value=0,
        initial=0,
        help_text="Another seed chooses other cases under the same filters.",
    )
    kinds = checkboxes(Kind.choices, "Only kinds")
    made = checkboxes(SourceImage.Made.choices, "Only images that are")
    categories = checkboxes(Category.choices, "Only categories")
    must_images = forms.MultipleChoiceField(
        label="Images that the suite must include",
        required=False,
        widget=ThumbnailChoices,
        help_text="Each of these images gets at least one case. The seed selects the other cases.",
    )
    must_pairs = forms.MultipleChoiceField(
        label="Pairs that the suite must include", required=False, widget=ThumbnailChoices
    )
    repeated = forms.IntegerField(
        label="Cases played twice",
        min_value=0,
        initial=0,
        required=False,
        help_text="Repeats show how much of a result is chance.",
    )
    narrow = forms.BooleanField(
        label="Allow a narrow suite",
        required=False,
        help_text="Permits few images, pairs or categories. Such a suite does not suit a ranking.",
    )
    shapes = forms.BooleanField(
        label="Only chain shapes",
        required=False,
        help_text="Use only pairs whose trips have more than two steps (chain shapes).",
    )

    class Meta:
        model = Suite
        fields = (
            *("title", "slug", "version", "trips", "size", "repeats", "description"),
            *("changes", "importance"),
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "must_images" in self.fields:  # a draft
            self._offer_content()
        filters = self.instance.filters or {}
        self.initial.update({name: filters[name] for name in drafts.FILTERS & filters.keys()})

    def _offer_content(self) -> None:
        """Offer the active images and pairs as choices."""
        active = SourceImage.objects.filter(status=Curation.ACTIVE).select_related("stored")
        sources = list(active.only("slug", "title", "stored"))
        pairs = EditPair.objects.filter(status=Curation.ACTIVE).order_by("title")
        offered = {
            "must_images": [(source.slug, source.title) for source in sources],
            "must_pairs": list(pairs.values_list("slug", "title")),
        }
        for name, choices in offered.items():
            cast(forms.MultipleChoiceField, self.fields[name]).choices = choices
        self.fields["must_images"].widget.thumbnails = {  # type: ignore[attr-defined]
            source.slug: source.stored.thumbnail_url for source in sources
        }

    def save(self, commit: bool = True) -> Suite:
        if not self.instance.is_frozen:
            chosen = drafts.FILTERS & self.cleaned_data.keys()
            filters = self.instance.filters or {}
            self.instance.filters = filters | {name: self.cleaned_data[name] for name in chosen}
        return super().save(commit)


@admin.register(Suite)
class SuiteAdmin(WithPages, HistoryAdmin):
    form = SuiteForm
    pages = {
        "preview": "<int:pk>/preview/",
        "freeze": "<int:pk>/freeze/",
        "diagnostics": "<int:pk>/diagnostics/",
        "next": "<int:pk>/next/",
    }
    list_display = (
        *("title", "some_images", "version", "status", "case_count", "trips", "run_count"),
        "frozen_at",
    )
    list_filter = ("status", "published_elsewhere")
    search_fields = ("slug", "title")
    draft_fieldsets = (
        (
            None,
            {
                "fields": (
                    "title",
                    "slug",
                    "version",
                    "description",
                    "changes",
                    "importance",
                    "seen_at",
                )
            },
        ),
        ("Play", {"fields": ("trips", "size", "repeats")}),
        (
            "Cases",
            {
                "fields": (
                    *("cases", "repeated", "seed", "kinds", "made", "categories"),
                    *("must_images", "must_pairs", "narrow", "shapes", "preview"),
                )
            },
        ),
    )
    frozen_fieldsets = (
        (None, {"fields": ("title", "slug", "version", "status", "content_hash", "frozen_at")}),
        ("Play", {"fields": ("trips", "size", "repeats", "case_count", "changes")}),
        (
            "How it is shown",
            {"fields": ("description", "importance", "stop_after", "next_steps", "seen_at")},
        ),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return (
            super()
            .get_queryset(request)
            .defer("definition")
            .prefetch_related(Prefetch("images", SuiteImage.objects.select_related("stored")))
            .annotate(n_cases=_count(Case), n_runs=_count(Run))
        )

    def get_fieldsets(self, request: HttpRequest, obj: Suite | None = None) -> Any:
        return self.frozen_fieldsets if obj and obj.is_frozen else self.draft_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Suite | None = None) -> Any:
        if obj and obj.is_frozen:
            return (
                *("title", "slug", "version", "status", "content_hash", "frozen_at", "trips"),
                *("size", "repeats", "case_count", "changes", "next_steps"),
            )
        return ("preview",)

    def get_form(self, request: HttpRequest, obj: Suite | None = None, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, **kwargs)
        if obj and obj.is_frozen:
            # The page of a frozen suite has no fields for filters, so they cannot be required.
            for name in drafts.FILTERS:
                form.base_fields.pop(name, None)
        return form

    def has_delete_permission(self, request: HttpRequest, obj: Suite | None = None) -> bool:
        return not (obj and obj.is_frozen) and super().has_delete_permission(request, obj)

    def view_on_site(self, suite: Suite) -> str | None:
        """Return the suite's page; None for a draft, and for a sealed suite (secret images)."""
        return suite.get_absolute_url() if suite.is_frozen and not suite.sealed else None

    @admin.display(description="images")
    def some_images(self, row: Suite) -> str:
        """Return the first images of a suite; none if the suite is sealed."""
        shown = [] if row.sealed else list(row.images.all())[:MAX_IMAGES]
        return (
            format_html_join("", "{}", ((image_tag(image.stored, 40),) for image in shown)) or "–"
        )

    @admin.display(description="cases", ordering="n_cases")
    def case_count(self, row: Any) -> int:
        return row.n_cases

    @admin.display(description="runs", ordering="n_runs")
    def run_count(self, row: Any) -> int:
        return row.n_runs

    @admin.display(description="preview and freeze")
    def preview(self, row: Suite) -> str:
        if not row.pk:
            return "Save the draft first."
        address = reverse("admin:leaderboard_suite_preview", args=[row.pk])
        return format_html('<a href="{}">Preview and freeze</a>', address)

    @admin.display(description="next")
    def next_steps(self, row: Suite) -> str:
        return format_html(
            'This suite is frozen. <a href="{}">Diagnostics and next version</a> · '
            '<a href="{}">On the site</a>',
            reverse("admin:leaderboard_suite_diagnostics", args=[row.pk]),
            row.get_absolute_url(),
        )

    def preview_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the cases by kind and category, and the cost of a run."""
        suite, until = self.row_to_change(request, pk), time.monotonic() + PREVIEW_SECONDS
        try:
            ready = drafts.preview(suite, until)
            unseen = [] if suite.is_frozen else drafts.unseen_cases(ready.suite, until)
        except drafts.NotReady as progress:
            response = self.page(request, "preview", suite=suite, progress=progress)
            response["Refresh"] = "1"
            return response
        except SuiteError as error:
            return self.page(request, "preview", suite=suite, error=str(error))
        return self.page(
            request,
            "preview",
            suite=suite,
            preview=ready,
            core=ready.suite,
            estimates=ready.estimates(),
            sheet=_contact_sheet(ready.suite),
            unseen=[case.slug for case in unseen],
        )

    @method_decorator(require_POST)
    def freeze_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        suite = self.row_to_change(request, pk)
        if "looked" not in request.POST:
            messages.error(request, "Not frozen: confirm that you have checked the cases.")
            return redirect("admin:leaderboard_suite_preview", pk)
        try:
            if "unseen" not in request.POST and drafts.unseen_cases(drafts.preview(suite).suite):
                messages.error(request, "Not frozen: some edits are too small to be seen.")
                return redirect("admin:leaderboard_suite_preview", pk)
            frozen = drafts.freeze(suite)
        except SuiteError as error:
            messages.error(request, f"Not frozen: {error}.")
        else:
            self.log_change(request, frozen, "Froze the suite.")
            for warning in suite_builder.warnings(frozen.core):
                messages.warning(request, f"One-sided. {warning}.")
            messages.success(
                request, f"{frozen} is frozen and public. Hash: {frozen.content_hash[:12]}…"
            )
        return redirect("admin:leaderboard_suite_change", pk)

    def diagnostics_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show diagnostics of the cases, and the cases to drop in the next version."""
        suite = self.row_to_change(request, pk)
        rows = drafts.diagnose_suite(suite)
        return self.page(request, "diagnostics", suite=suite, rows=rows)

    @method_decorator(require_POST)
    def next_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Create a draft of the next version, without the selected cases."""
        suite = self.row_to_change(request, pk)
        without = request.POST.getlist("without")
        changes = f"{len(without)} case(s) dropped after diagnostics." if without else ""
        draft = drafts.next_version(suite, without, changes)
        messages.success(request, f"{draft} is a draft: preview it, then freeze it.")
        return redirect("admin:leaderboard_suite_change", draft.pk)


def _count(of: type[Model]) -> Coalesce:
    """Count rows of a suite with a subquery, because joins would multiply the rows."""
    rows = of._base_manager.filter(suite=OuterRef("pk")).order_by().values("suite")
    return Coalesce(Subquery(rows.annotate(count=Count("pk")).values("count")), 0)


def _contact_sheet(core: CoreSuite) -> list[dict[str, Any]]:
    """Return every case with its image and pair, for review by a curator."""
    sources = SourceImage.objects.filter(slug__in=core.image_by_slug).select_related("stored")
    by_slug = {source.slug: source for source in sources}
    pairs = EditPair.objects.in_bulk(core.pair_by_slug, field_name="slug")
    return [
        {
            "case": case,
            "source": by_slug[case.image],
            "pair": pairs[case.pair],
            "repeats": core.repeats_of(case),
        }
        for case in core.cases
    ]


@admin.register(PublishedFigure)
class PublishedFigureAdmin(admin.ModelAdmin):
    list_display = ("model_name", "metric", "trip", "value", "cases", "source", "published_on")
    list_filter = ("metric", "source")
    search_fields = ("model_name", "source")
