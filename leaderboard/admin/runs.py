"""Admin of runs: start, watch, pause, rescore, publish, review; the page “Today”."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Model, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.views.decorators.http import require_POST

from evaluation.estimate import duration
from leaderboard import jobs
from leaderboard.admin.base import ReadOnly, WithPages, image_tag
from leaderboard.jobs.control import start_budget
from leaderboard.models import (
    Call,
    EditingModel,
    Run,
    RunProgress,
    RunReview,
    SecurityEvent,
    Submission,
    Suite,
    Trip,
)
from leaderboard.models.runs import RunQuerySet, RunState
from leaderboard.standings import changes, refresh_ranks
from leaderboard.templatetags.admin_state import queue_state

#: Fields of the form that are stored in the progress and review rows.
IN_PROGRESS = ("budget_calls", "budget_usd")
IN_REVIEW = ("cleared", "decision")
BUDGET_HELP = (
    "The run pauses before it exceeds this budget. For a new run, the next page "
    "shows the price and proposes a budget."
)


def formfield(model: type[Model], name: str, **options: Any) -> Any:
    """Return the form field of a model's field."""
    return model._meta.get_field(name).formfield(**options)  # type: ignore[union-attr]


class RunForm(forms.ModelForm):
    """The form of a run. Clearing its flags requires a public reason."""

    budget_calls = formfield(
        RunProgress, "budget_calls", label="Budget (calls)", help_text=BUDGET_HELP
    )
    budget_usd = formfield(RunProgress, "budget_usd", label="Budget (USD)", help_text=BUDGET_HELP)
    cleared = formfield(RunReview, "cleared")
    decision = formfield(RunReview, "decision", widget=AdminTextInputWidget)

    def __init__(self, *args: Any, **options: Any) -> None:
        run = options.get("instance")
        if run is not None:
            values = {name: getattr(run.progress, name) for name in IN_PROGRESS}
            values |= {name: getattr(run.review, name) for name in IN_REVIEW}
            options["initial"] = values | (options.get("initial") or {})
        super().__init__(*args, **options)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("cleared") and not (cleaned.get("decision") or "").strip():
            raise forms.ValidationError(
                {"decision": "Give the reason why the run may rank. It is public."}
            )
        return cleaned


def _run_action(description: str, act: Callable[[Run], Any], done: str) -> Callable[..., None]:
    """Return an admin action that calls `act` for each selected run and reports refusals."""

    @admin.action(description=description, permissions=["change"])
    def action(model_admin: RunAdmin, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        count = 0
        for run in queryset.select_related("editing_model", "suite"):
            try:
                act(run)
            except jobs.NotAllowed as error:
                messages.warning(request, f"{run}: {error}")
            else:
                count += 1
                model_admin.log_change(request, run, done)
        messages.success(request, f"{count} run(s) {done}.")

    return action


@admin.register(Run)
class RunAdmin(WithPages, admin.ModelAdmin):
    pages = {"today": "today/", "resume": "<int:pk>/resume/"}
    list_display = ("editing_model", "suite", "where", "edits", "spent", "created_at")
    list_filter = ("state", "suite", "published", "source", "editing_model__is_reference")
    list_select_related = ("editing_model", "suite")
    search_fields = ("editing_model__name", "editing_model__slug", "suite__slug")
    date_hierarchy = "created_at"
    actions = (
        *("resume", "pause", "cancel", "play_again", "recover", "score_again"),
        *("publish", "withdraw"),
    )
    fieldsets = (
        (None, {"fields": ("editing_model", "suite", "stop_after", "cost_estimate")}),
        ("Budget", {"fields": ("budget_calls", "budget_usd", "spent")}),
        (
            "State",
            {
                "fields": (
                    "state",
                    "why",
                    "edits",
                    "last_error",
                    "resume_at",
                    "published",
                )
            },
        ),
        ("Review", {"fields": ("where", "flag_list", "hint_list", "cleared", "decision")}),
        (
            "Provenance (versions and settings)",
            {
                "fields": ("source", "verified", "metrics", "provenance"),
                "classes": ("collapse",),
            },
        ),
        ("Times", {"fields": ("created_at", "started_at", "finished_at")}),
    )
    change_only = (*IN_PROGRESS, *IN_REVIEW, "published")
    form = RunForm

    def get_fieldsets(self, request: HttpRequest, obj: Run | None = None) -> Any:
        if obj is None:
            return (
                (
                    None,
                    {"fields": ("editing_model", "suite", "budget_calls", "budget_usd")},
                ),
            )
        return self.fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Run | None = None) -> Any:
        if obj is None:
            return ()
        shown = [name for _, block in self.fieldsets for name in block["fields"]]
        return [name for name in shown if name not in self.change_only]

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "suite":
            kwargs["queryset"] = Suite.objects.startable()
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # a run is withdrawn, never deleted

    def save_model(self, request: HttpRequest, obj: Run, form: Any, change: bool) -> None:
        if change:
            # Save only changed fields: a worker may be writing the others.
            for row, names in ((obj.progress, IN_PROGRESS), (obj.review, IN_REVIEW)):
                changed = [name for name in names if name in form.changed_data]
                for name in changed:
                    setattr(row, name, form.cleaned_data[name])
                row.save(update_fields=changed)
            if "published" in form.changed_data:
                row = Run.objects.filter(pk=obj.pk)
                row.publish() if obj.published else row.withdraw()
            if {"published", "cleared", "decision"} & set(form.changed_data):
                refresh_ranks(obj.suite)
            return
        started = jobs.start(
            obj.editing_model,
            obj.suite,
            budget_calls=form.cleaned_data["budget_calls"],
            budget_usd=form.cleaned_data["budget_usd"],
        )
        obj.pk = started.pk
        obj.refresh_from_db()

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the form, then the cost and a proposed budget; start the run when confirmed."""
        if request.method == "POST" and "confirmed" not in request.POST:
            form = self.get_form(request)(request.POST)
            if self.has_add_permission(request) and form.is_valid():
                return self._confirm(request, form.cleaned_data)
        return super().add_view(request, form_url, extra_context)

    def _confirm(self, request: HttpRequest, values: Mapping[str, Any]) -> HttpResponse:
        model, suite = values["editing_model"], values["suite"]
        estimate = model.estimate_on(suite)
        budget = {
            name: usual if values.get(name) is None else values[name]
            for name, usual in start_budget(estimate).items()
        }
        return self.page(
            request,
            "confirm",
            **budget,
            model=model,
            suite=suite,
            estimate=estimate,
            length=duration(estimate.seconds),
            title="Start this run?",
        )

    def today_view(self, request: HttpRequest) -> HttpResponse:
        """Show everything that needs attention today."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self.page(
            request,
            "today",
            **today(),
            may_change=self.has_change_permission(request),
            may_review=request.user.has_perm("leaderboard.change_submission"),
            title="Today",
        )

    @method_decorator(require_POST)
    def resume_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Resume a paused run; first raise its budget or update its metrics if necessary."""
        run = self.row_to_change(request, pk, "editing_model", "suite")
        if run.reason == "budget":
            left = run.editing_model.estimate(
                max(0, run.progress.edits_total - run.progress.edits_done),
                run.progress.chains_total,
            )
            more = start_budget(left)
            limits = (
                {"budget_calls": run.progress.calls + more["budget_calls"]}
                if run.progress.budget_calls
                else {}
            )
            if run.progress.budget_usd is not None and more["budget_usd"] is not None:
                limits["budget_usd"] = run.progress.spent_usd + more["budget_usd"]
            RunProgress.objects.filter(pk=pk).update(**limits)
        # With its old metrics the run would immediately pause again.
        act = jobs.score_again if run.reason == "metric_version" else jobs.resume
        _run_action("Resume", act, "resumed")(self, request, Run.objects.filter(pk=pk))
        return redirect("admin:leaderboard_run_today")

    @admin.display(description="state")
    def where(self, run: Run) -> str:
        """Return the state in the same words as on the public pages."""
        if run.state == RunState.PAUSED and run.reason_text:
            return f"Paused: {run.reason_text}"
        return run.public_state

    @admin.display(description="progress")
    def edits(self, run: Run) -> str:
        now = run.progress
        edits = f"{now.edits_done:,} of {now.edits_total:,} edits"
        return f"{edits}, {now.trips_scored:,} trips scored"

    @admin.display(description="spent")
    def spent(self, run: Run) -> str:
        return f"{run.progress.calls:,} calls, {run.progress.spent_usd:.2f} USD"

    @admin.display(description="last error")
    def last_error(self, run: Run) -> str:
        return run.progress.last_error

    @admin.display(description="reason")
    def why(self, run: Run) -> str:
        return run.reason_text or run.progress.last_error or "–"

    @admin.display(description="estimate")
    def cost_estimate(self, run: Run) -> str:
        estimate = run.editing_model.estimate(
            run.progress.edits_total, run.progress.chains_total, run.stop_after
        )
        return str(estimate)

    @admin.display(description="flags (keep the run out of the ranks)")
    def flag_list(self, run: Run) -> str:
        items = [(text,) for text in run.review.flag_texts]
        if not items:
            return "none"
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", items))

    @admin.display(description="hints (do not affect the rank)")
    def hint_list(self, run: Run) -> str:
        """Return the text of each hint with the images that caused it."""
        if not run.review.hints:
            return "none"
        items = [
            (
                hint["kind"],
                hint["text"],
                format_html_join(" ", "{}", self._evidence(run, hint.get("evidence", ()))),
            )
            for hint in run.review.hints
        ]
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}: {}<br>{}</li>", items))

    def _evidence(self, run: Run, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str]]:
        for row in rows:
            trips = Trip.objects.filter(
                chain__run=run, chain__case=row["case"], number=row["trip"]
            ).select_related("chain__case__image__stored", "edited", "restored")
            trip = trips.first()
            if trip is None:
                continue
            answer = trip.edited if row["direction"] == "forward" else trip.restored
            source = trip.chain.case.image.stored
            shown = format_html("{}{}", image_tag(source, 96), image_tag(answer, 96))
            link = reverse("run_case", args=[run.pk, row["case"]])
            yield (format_html('<a href="{}">{} {}</a>', link, shown, row["detail"]),)

    resume = _run_action("Resume", jobs.resume, "resumed")
    pause = _run_action("Pause", lambda run: jobs.pause(run, "person"), "paused")
    cancel = _run_action("Cancel", jobs.cancel, "cancelled")
    play_again = _run_action(
        "Play failed and lost chains again",
        jobs.play_again,
        "queued to play failed chains again",
    )
    recover = _run_action(
        "Restore lost images, or play their edits again",
        jobs.recover,
        "queued to check their images",
    )
    score_again = _run_action(
        "Score again with the current metrics", jobs.score_again, "queued to be scored again"
    )

    @admin.action(description="Publish on the board", permissions=["change"])
    def publish(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        self._set_published(request, queryset, RunQuerySet.publish)

    @admin.action(description="Withdraw from the board", permissions=["change"])
    def withdraw(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        self._set_published(request, queryset, RunQuerySet.withdraw)

    def _set_published(
        self, request: HttpRequest, queryset: QuerySet[Run], act: Callable[[RunQuerySet], int]
    ) -> None:
        """Publish or withdraw runs, and report the state of each."""
        runs = Run.objects.filter(pk__in=[run.pk for run in queryset])
        act(runs)
        for suite in Suite.objects.filter(runs__in=runs).distinct():
            refresh_ranks(suite)
        for run in runs.select_related("editing_model", "suite"):
            ranked = run.is_ranked or run.editing_model.is_reference or not run.published
            report = messages.success if ranked else messages.warning
            report(request, f"{run}: {run.public_state}.")
            self.log_change(request, run, run.public_state[:500])


@admin.register(Call)
class CallAdmin(ReadOnly):
    """The ledger of calls to editing models, read-only."""

    list_display = (
        *("started_at", "run_id", "direction", "number", "attempt", "outcome", "seconds"),
        *("bytes", "cost", "message"),
    )
    list_filter = ("outcome", "direction")
    search_fields = ("=run__id", "message")
    show_full_result_count = False


DAY = timedelta(days=1)
#: The maximum number of rows in each list on the page “Today”.
ROWS = 20
#: Label of the button that resumes a paused run, by the reason of the pause.
RESUME_LABELS = {
    "budget": "Raise the budget and resume",
    "key_rejected": "",  # only a new key helps
    "out_of_credit": "Resume: the account was topped up",
    "storage": "Resume: there is enough space again",
    "metric_version": "Score everything with the current metrics",
}


def today() -> dict[str, Any]:
    """Return the lists and sums on the page “Today”."""
    now = timezone.now()
    runs = Run.objects.select_related("editing_model", "suite").defer("suite__definition")
    calls = Call.objects.filter(started_at__gte=now - DAY)
    return {
        "now": now,
        "under_way": list(runs.active().order_by("created_at")[:ROWS]),
        "paused": [
            {"run": run, "resume_label": resume_label(run)}
            for run in runs.filter(state=RunState.PAUSED).order_by("created_at")[:ROWS]
        ],
        "queues": queue_state()["queues"],
        "oldest": _oldest(runs),
        "spend": list(
            calls.filter(cost__gt=0)
            .values("run__editing_model__name")
            .annotate(calls=Count("pk"), usd=Sum("cost"))
            .order_by("-usd", "-calls")[:ROWS]
        ),
        "spent": calls.aggregate(calls=Count("pk"), usd=Sum("cost")),
        "flagged": list(runs.exclude(review__flags=[]).filter(review__cleared=False)[:ROWS]),
        "unpublished": list(
            runs.filter(
                state=RunState.FINISHED,
                published=False,
                withdrawn_at=None,
                editing_model__is_reference=False,
            )[:ROWS]
        ),
        "reviews": list(
            Submission.objects.filter(state=Submission.State.REVIEW)
            .select_related("suite", "probe_edited")
            .order_by("probed_at")[:ROWS]
        ),
        "errors": list(
            calls.exclude(outcome__in=(Call.ANSWERED, Call.CALLING))
            .values("run", "run__editing_model__name", "outcome", "message")
            .annotate(count=Count("pk"))
            .order_by("-count")[:ROWS]
        ),
        "canaries": canaries(),
        "failed": list(runs.filter(state=RunState.FAILED, finished_at__gte=now - DAY)[:ROWS]),
        "events": list(SecurityEvent.objects.filter(created_at__gte=now - DAY)[:ROWS]),
    }


def canaries() -> list[dict[str, Any]]:
    """Return the models watched for changes with their last comparison, changed models first."""
    watched = EditingModel.objects.filter(canary=True)
    rows = [{"model": model, "change": changes.last_change(model)} for model in watched[:ROWS]]
    urgency = {True: 0, None: 1, False: 2}
    return sorted(rows, key=lambda row: urgency[row["change"].changed] if row["change"] else 3)


def resume_label(run: Run) -> str:
    """Return the label of the button that resumes a paused run; empty for no button."""
    if run.resume_at:
        return "Resume now"
    return RESUME_LABELS.get(run.reason, "Resume")


def _oldest(runs: QuerySet[Run]) -> datetime | None:
    """Return the creation time of the run that has waited longest."""
    waiting = runs.filter(state=RunState.QUEUED)
    return waiting.order_by("created_at").values_list("created_at", flat=True).first()
