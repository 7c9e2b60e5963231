"""Admin of experiments: define the arms, show their cost, start them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from evaluation.errors import UserFacingError
from evaluation.estimate import duration
from evaluation.experiment_file import MAX_ARMS
from leaderboard.admin.base import WithPages
from leaderboard.experiments.plan import plan, start, total_estimate
from leaderboard.jobs.control import start_budget
from leaderboard.models import Experiment, ExperimentArm, Suite

#: Fields that remain editable after the start: texts, publication, and models to add.
ALWAYS_EDITABLE = ("title", "question", "published", "editing_models")


class ArmForms(forms.BaseInlineFormSet):
    """The forms of an experiment's arms, which must all have different settings."""

    def clean(self) -> None:
        super().clean()
        if any(self.errors):
            return
        rows = [
            form.instance
            for form in self.forms
            if form.cleaned_data and not form.cleaned_data.get("DELETE")
        ]
        for row in rows:
            try:
                row.core  # noqa: B018 (raises if the arm is invalid)
            except UserFacingError as error:
                raise forms.ValidationError(f"{row.name}: {error}") from None
        digests = [row.core.digest for row in rows]
        if len(set(digests)) < len(digests):
            raise forms.ValidationError("Two arms are the same: change or remove one.")


class ArmInline(admin.StackedInline):
    model = ExperimentArm
    formset = ArmForms
    extra = 2
    max_num = MAX_ARMS
    ordering = ("position", "pk")
    # A few fields on each line: ten columns would not fit a screen.
    fields = (
        ("position", "name"),
        ("wording", "fidelity"),
        "also",
        ("seeds", "temperature", "size"),
        ("session", "cleanup", "floor"),
    )
    verbose_name_plural = "arms (ways to play the suite); the lowest position is the baseline"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may_change_arms(obj) and super().has_add_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may_change_arms(obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may_change_arms(obj) and super().has_delete_permission(request, obj)


def _may_change_arms(experiment: Experiment | None) -> bool:
    return experiment is None or experiment.started_at is None


@admin.register(Experiment)
class ExperimentAdmin(WithPages, admin.ModelAdmin):
    pages = {"start": "<int:pk>/start/"}
    list_display = ("title", "suite", "arm_names", "started_at", "published")
    list_filter = ("published", "suite")
    list_select_related = ("suite",)
    search_fields = ("title", "slug")
    prepopulated_fields = {"slug": ("title",)}
    inlines = (ArmInline,)
    fields = (
        *("title", "slug", "question", "suite", "editing_models", "repeats", "published"),
        *("next_step", "runs"),
    )

    def get_fields(self, request: HttpRequest, obj: Experiment | None = None) -> Any:
        return self.fields if obj else self.fields[:-2]

    def get_readonly_fields(self, request: HttpRequest, obj: Experiment | None = None) -> Any:
        shown = ["next_step", "runs"]
        if obj and obj.started_at:
            shown += [name for name in self.fields[:-2] if name not in ALWAYS_EDITABLE]
        return shown

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> dict[str, Any]:
        return {} if obj and obj.started_at else dict(self.prepopulated_fields)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "suite":
            kwargs["queryset"] = Suite.objects.playable().defer("definition")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _may_change_arms(obj) and super().has_delete_permission(request, obj)

    @admin.display(description="arms")
    def arm_names(self, experiment: Experiment) -> str:
        return ", ".join(arm.name for arm in experiment.arms.all())

    @admin.display(description="next step")
    def next_step(self, experiment: Experiment) -> str:
        address = reverse("admin:leaderboard_experiment_start", args=[experiment.pk])
        words = "See the estimate, and start"
        if experiment.started_at:
            words = "Start the missing runs"
        return format_html('<a class="button" href="{}">{}</a>', address, words)

    @admin.display(description="runs")
    def runs(self, experiment: Experiment) -> str:
        rows = [
            (
                reverse("admin:leaderboard_run_change", args=[run.pk]),
                arm.name,
                run,
                run.public_state,
            )
            for arm in experiment.arms.prefetch_related("runs__editing_model", "runs__suite")
            for run in arm.runs.all()
        ]
        if not rows:
            return "none yet"
        items = format_html_join("", '<li><a href="{}">{}: {}</a>, {}</li>', rows)
        return format_html("<ul>{}</ul>", items)

    def start_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show the cost of every run, and start them after confirmation."""
        experiment = self.row_to_change(request, pk, "suite")
        if not request.user.has_perm("leaderboard.add_run"):
            raise PermissionDenied
        back = redirect("admin:leaderboard_experiment_change", pk)
        try:
            planned = plan(experiment)
            if request.method == "POST":
                budget = _Budget(request.POST)
                if budget.is_valid():
                    runs = start(experiment, budget.cleaned_data["budget_usd"])
                    self.log_change(request, experiment, f"started {len(runs)} run(s)")
                    messages.success(request, f"{len(runs)} run(s) started.")
                    return back
                messages.error(request, "Enter the budget in USD, or leave it empty.")
        except UserFacingError as error:
            messages.error(request, str(error))
            return back
        total = total_estimate(planned)
        return self.page(
            request,
            "start",
            experiment=experiment,
            planned=[(run, duration(run.estimate.seconds)) for run in planned],
            total=total,
            length=duration(total.seconds),
            budget_usd=start_budget(total)["budget_usd"],
            title="Start this experiment?",
        )


class _Budget(forms.Form):
    budget_usd = forms.DecimalField(
        required=False, min_value=Decimal(0), max_digits=10, decimal_places=4
    )
