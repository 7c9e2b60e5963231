"""Closed studies: made, given links, watched, exported."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.files.storage import default_storage
from django.db.models import Count, Q, QuerySet
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from leaderboard.admin.votes import votes_file
from leaderboard.links import absolute
from leaderboard.models import EditingModel, Study, Suite
from leaderboard.models.people.questions import votable_runs
from leaderboard.people import studies
from leaderboard.people.studies import StudyError

LIST_HELP = (
    "One question a line: “case, model@trip, model@trip” for pairs, “case, model@trip” for single "
    "pictures. Only public runs of open suites. Left empty, it is drawn from the fields below."
)


class StudyForm(forms.ModelForm):
    """A study with its list of questions, written or drawn, and more links."""

    suite = forms.ModelChoiceField(Suite.objects.none(), required=False)
    lines = forms.CharField(
        required=False,
        strip=True,
        max_length=400_000,
        label="Questions",
        widget=forms.Textarea(attrs={"rows": 8, "cols": 90}),
        help_text=LIST_HELP,
    )
    models = forms.ModelMultipleChoiceField(
        EditingModel.objects.none(), required=False, help_text="To draw a list from."
    )
    trips = forms.CharField(
        required=False, max_length=60, initial="1, 3", help_text="To draw a list from: 1, 3, 10."
    )
    cases = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=300,
        initial=20,
        help_text="To draw a list from: so many cases of the suite.",
    )
    more_raters = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=studies.MOST_RATERS,
        initial=0,
        help_text="So many more links.",
    )

    class Meta:
        model = Study
        fields = ("title", "kind", "instructions", "votes_each", "open", "published")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        runs = votable_runs().filter(current=True)
        suites, models = self.fields.get("suite"), self.fields.get("models")
        if isinstance(suites, forms.ModelChoiceField):
            suites.queryset = Suite.objects.filter(runs__in=runs).distinct().defer("definition")
        if isinstance(models, forms.ModelChoiceField):
            models.queryset = EditingModel.objects.filter(runs__in=runs).distinct()

    @property
    def begun(self) -> bool:
        return bool(self.instance.pk) and self.instance.votes.exists()

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        wanted = values.get("lines") or values.get("models")
        if not wanted and not self.instance.pk:
            self.add_error("lines", "Say what to ask: write a list, or choose models to draw one.")
        if not wanted or self.errors:
            return values
        if self.begun:
            self.add_error("lines", "Raters have begun: what they are asked stays as it is.")
        elif values.get("suite") is None:
            self.add_error("suite", "Choose the suite of the questions.")
        else:
            self._check_list(values)
        return values

    def _check_list(self, values: dict[str, Any]) -> None:
        text = values.get("lines") or ""
        try:
            if not text:
                slugs = [model.slug for model in values["models"]]
                kind = values["kind"]
                trips = [int(word) for word in values["trips"].replace(",", " ").split()][:20]
                text = studies.drawn(values["suite"], slugs, trips, kind, values["cases"] or 20)
            studies.parse(text, values["kind"])
        except StudyError as error:
            self.add_error("lines", str(error))
        except ValueError:
            self.add_error("trips", "Write numbers with commas: 1, 3, 10.")
        values["lines"] = text


@admin.register(Study)
class StudyAdmin(admin.ModelAdmin):
    form = StudyForm
    list_display = ("title", "kind", "asks", "raters", "answers", "open", "published", "created_at")
    list_filter = ("kind", "open", "published")
    search_fields = ("title",)
    readonly_fields = ("progress", "downloads")

    def get_fieldsets(self, request: HttpRequest, obj: Study | None = None) -> Any:
        main = ["title", "kind", "instructions", "votes_each", "open", "published"]
        asked = ["suite", "lines", "models", "trips", "cases"]
        blocks: list[Any] = [(None, {"fields": main})]
        if obj is None or not obj.votes.exists():
            blocks.append(("What is asked", {"fields": asked}))
        blocks.append(("Raters", {"fields": ["more_raters", *(["progress"] if obj else [])]}))
        if obj:
            blocks.append(("Votes", {"fields": ["downloads"]}))
        return blocks

    def get_readonly_fields(self, request: HttpRequest, obj: Study | None = None) -> Any:
        # How people were asked is part of what they said.
        return (*self.readonly_fields, *(("kind",) if obj and obj.votes.exists() else ()))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Study]:
        return (
            super()
            .get_queryset(request)
            .annotate(
                n_questions=Count("questions", distinct=True),
                n_votes=Count("votes", Q(votes__answered_at__isnull=False), distinct=True),
            )
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # votes are never deleted: a study is closed

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        own = [
            path("<int:pk>/votes.csv", view(self.csv_view), name="leaderboard_study_csv"),
            path(
                "<int:pk>/votes.parquet", view(self.parquet_view), name="leaderboard_study_parquet"
            ),
        ]
        return [*own, *super().get_urls()]

    def save_model(self, request: HttpRequest, obj: Study, form: Any, change: bool) -> None:
        if not change:
            obj.created_by_id = request.user.pk
        super().save_model(request, obj, form, change)
        values = form.cleaned_data
        try:
            if values.get("lines"):
                number = studies.set_questions(obj, values["suite"], values["lines"])
                self.message_user(request, f"The study has {number} question(s).")
            if values.get("more_raters"):
                studies.add_raters(obj, values["more_raters"])
        except StudyError as error:
            self.message_user(request, f"Not as wished: {error}.", messages.ERROR)

    def csv_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        study = self._viewed(request, pk)
        return votes_file(study.votes.answered(), f"study-{pk}")

    def parquet_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        study = self._viewed(request, pk)
        name = studies.parquet(study)
        if name is None:
            self.message_user(request, "A worker is writing the file; try again in a moment.")
            back: HttpResponse = redirect("admin:leaderboard_study_change", pk)
            return back
        return FileResponse(
            default_storage.open(name), as_attachment=True, filename=f"study-{pk}.parquet"
        )

    def _viewed(self, request: HttpRequest, pk: int) -> Study:
        if not self.has_view_permission(request):
            raise PermissionDenied
        return get_object_or_404(Study, pk=pk)

    @admin.display(description="questions", ordering="n_questions")
    def asks(self, study: Any) -> int:
        return study.n_questions

    @admin.display(description="raters")
    def raters(self, study: Study) -> int:
        return studies.progress(study).count()

    @admin.display(description="votes", ordering="n_votes")
    def answers(self, study: Any) -> int:
        return study.n_votes

    @admin.display(description="links and progress")
    def progress(self, study: Study) -> SafeString:
        rows = format_html_join(
            "",
            '<tr><th scope="row">{}</th><td>{} of {}</td><td><a href="{}">{}</a></td></tr>',
            (
                (
                    rater.label,
                    rater.said,
                    study.votes_each,
                    reverse("study", args=[rater.token]),
                    absolute(reverse("study", args=[rater.token])),
                )
                for rater in studies.progress(study)
            ),
        )
        return format_html("<table><tbody>{}</tbody></table>", rows) if rows else format_html("–")

    @admin.display(description="export")
    def downloads(self, study: Study) -> SafeString:
        return format_html(
            '<a href="{}">CSV</a> · <a href="{}">Parquet</a>',
            reverse("admin:leaderboard_study_csv", args=[study.pk]),
            reverse("admin:leaderboard_study_parquet", args=[study.pk]),
        )
