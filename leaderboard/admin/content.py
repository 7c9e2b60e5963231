"""Admin of source images and edit pairs: upload, write, preview, activate."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Count
from django.forms import Script
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.text import slugify
from import_export.admin import ExportMixin, ImportExportMixin

from evaluation.content import curation, sources, suite_builder
from evaluation.content.suites import SuiteImage
from evaluation.editors import EditorError, load_editor
from evaluation.editors.base import EditContext
from evaluation.images import MAX_BYTES, EncodedImage, encode_webp
from leaderboard.admin.base import (
    CurationActions,
    DetectsConflicts,
    HistoryAdmin,
    SafeResource,
    WordingsField,
    WordsField,
    checkboxes,
    image_tag,
)
from leaderboard.content import drafts, loading
from leaderboard.models import EditPair, SourceImage, StoredImage
from leaderboard.models.suites import Category, Curation, Kind


class AnnotationsWidget(forms.Textarea):
    """The annotations as JSON, below the image on which a curator draws them."""

    template_name = "admin/leaderboard/sourceimage/annotations.html"
    image: StoredImage | None = None

    class Media:
        js = (Script("js/annotate.js", defer=True),)

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        return super().get_context(name, value, attrs) | {"image": self.image}


class SourceImageForm(DetectsConflicts):
    contains = WordsField(help_text="Things in the image that pairs may refer to: chair, cup.")
    file = forms.FileField(
        required=False,
        help_text="PNG, JPEG or WebP, best with 512 pixels or more on both sides. The file cannot "
        "be replaced: upload a changed image as a new source image.",
    )

    class Meta:
        model = SourceImage
        exclude = ("stored",)  # set from the file
        widgets = {"annotations": AnnotationsWidget(attrs={"rows": 3, "cols": 80})}
        help_texts = {
            "licence": "A licence that allows showing and editing: CC0-1.0, CC-BY-4.0 (needs an "
            "attribution), "
            "MIT, public domain … Not “unknown” or “all rights reserved”.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            del self.fields["file"]
            self.fields["annotations"].widget.image = self.instance.stored
        else:
            self.fields["file"].required = True

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        upload = cleaned.get("file")
        if not upload:
            return cleaned
        if upload.size > MAX_BYTES:
            raise ValidationError(
                {"file": f"The file has {upload.size:,} bytes; the limit is {MAX_BYTES:,}."}
            )
        if self.errors:
            # Browsers do not keep the file of a rejected form.
            self.add_error("file", "Correct the other fields, then choose the file again.")
            return cleaned
        try:
            self.image = loading.checked_image(
                upload.read(), cleaned["licence"], cleaned["attribution"]
            )
        except curation.Rejected as rejected:
            raise ValidationError({"file": rejected.reasons}) from None
        return cleaned

    def save(self, commit: bool = True) -> SourceImage:
        if not self.instance.pk:
            self.instance.stored = StoredImage.objects.get_or_store(self.image)
            self.instance.perceptual_hash = curation.fingerprint(self.image.decoded)
        return super().save(commit)


class SourceImageResource(SafeResource):
    """An export of source images without their files."""

    class Meta:
        model = SourceImage
        import_id_fields = ("slug",)
        fields = (
            *("slug", "title", "kind", "subkind", "made", "origin", "author", "licence"),
            *("attribution", "source_url", "contains", "pose", "status", "stored__sha256"),
        )


@admin.register(SourceImage)
class SourceImageAdmin(CurationActions, ExportMixin, HistoryAdmin):
    form = SourceImageForm
    resource_classes = (SourceImageResource,)
    list_display = ("thumbnail", "title", "kind", "made", "places", "licence", "used", "status")
    list_display_links = ("thumbnail", "title")
    list_filter = ("status", "kind", "made", "licence")
    list_select_related = ("stored",)
    list_per_page = 50
    search_fields = ("slug", "title", "author", "subkind", "attribution")
    readonly_fields = ("preview",)
    frozen_cases = "image__source_image"

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(suites=Count("suite_images", distinct=True))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        # The pixels of an image never change, so only a new image takes a file.
        fields = super().get_fields(request, obj)
        return [name for name in fields if not (obj and name == "file")]

    @admin.display(description="")
    def thumbnail(self, row: SourceImage) -> str:
        return image_tag(row.stored, alt=row.title)

    @admin.display(description="image")
    def preview(self, row: SourceImage) -> str:
        return image_tag(row.stored, 256, row.title) if row.pk else "–"

    @admin.display(description="annotated")
    def places(self, row: SourceImage) -> str:
        return ", ".join(name.replace("_", " ") for name in row.annotations) or "–"

    @admin.display(description="suites", ordering="suites")
    def used(self, row: Any) -> int:
        return row.suites


PREVIEW_SIZE = 384
#: The number of fitting images shown at first; a link shows all of them.
FIRST_SHOWN = 10
#: Large enough to detect an image that equals its mirror image.
SYMMETRY_SIZE = 128


class EditPairForm(DetectsConflicts):
    kinds = checkboxes(Kind.choices, "Kinds of images", "If none is ticked: all.")
    present = WordsField(
        label="Must contain", help_text="What an image must show: brown hair, table."
    )
    absent = WordsField(
        label="Must not contain",
        help_text="What an image must not show before the edit: chair, sofa.",
    )
    variants = WordingsField(
        label="Other wordings",
        required=False,
        help_text="The same edit in other words; clear a row to remove it.",
    )

    class Meta:
        model = EditPair
        fields = "__all__"

    def clean_title(self) -> str:
        title = self.cleaned_data["title"]
        others = EditPair.objects.exclude(pk=self.instance.pk)
        if other := others.filter(title__iexact=title).first():
            raise ValidationError(f"The pair {other.slug} has this title. Choose another title.")
        return title


class EditPairResource(SafeResource):
    """Import and export of pairs: one invalid row rejects the whole file."""

    class Meta:
        model = EditPair
        import_id_fields = ("slug",)
        exclude = ("id", "created_at", "updated_at")
        use_transactions = True
        clean_model_instances = True
        skip_unchanged = True
        report_skipped = True


class TemplateForm(forms.Form):
    """Create many pairs from a list of objects and one wording."""

    objects = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="One object per line, with its article: a red ball.",
    )
    forward = forms.CharField(
        initial="Add {object} to the picture. Keep everything else as it is.", max_length=1000
    )
    backward = forms.CharField(
        initial="Remove {name}. Keep everything else as it is.", max_length=1000
    )
    category = forms.ChoiceField(choices=Category.choices, initial=Category.OBJECTS)
    kinds = checkboxes(Kind.choices, "Kinds")

    def _template(self, name: str) -> str:
        text = self.cleaned_data[name]
        fields = set(re.findall(r"{(.*?)}", text))
        if not fields & {"object", "name"} or fields - {"object", "name"}:
            raise ValidationError(
                "Use the fields {object} (a red ball) or {name} (the red ball) only."
            )
        return text

    def clean_forward(self) -> str:
        return self._template("forward")

    def clean_backward(self) -> str:
        return self._template("backward")

    def clean_objects(self) -> list[str]:
        lines = [line.strip() for line in self.cleaned_data["objects"].splitlines() if line.strip()]
        slugs = [self.slug(line) for line in lines]
        twice = {slug for slug in slugs if slugs.count(slug) > 1}
        taken = set(EditPair.objects.filter(slug__in=slugs).values_list("slug", flat=True))
        if bad := twice | taken:
            raise ValidationError(
                f"These already exist or are listed twice: {', '.join(sorted(bad))}."
            )
        return lines

    @staticmethod
    def bare(line: str) -> str:
        return re.sub(r"^(a|an|the|some)\s+", "", line, flags=re.IGNORECASE)

    @classmethod
    def slug(cls, line: str) -> str:
        return slugify(cls.bare(line))[:80]

    def pairs(self) -> list[EditPair]:
        """Return an unsaved draft for each object."""
        pairs = []
        for line in self.cleaned_data["objects"]:
            bare = self.bare(line)
            texts = {"object": line, "name": f"the {bare}"}
            pairs.append(
                EditPair(
                    slug=self.slug(line),
                    title=bare.capitalize(),
                    category=self.cleaned_data["category"],
                    forward=self.cleaned_data["forward"].format(**texts),
                    backward=self.cleaned_data["backward"].format(**texts),
                    object=bare,
                    absent=[bare],
                    kinds=self.cleaned_data["kinds"],
                    change=EditPair.Change.LOCAL,
                )
            )
        return pairs


@admin.register(EditPair)
class EditPairAdmin(CurationActions, ImportExportMixin, HistoryAdmin):
    form = EditPairForm
    resource_classes = (EditPairResource,)
    pages = CurationActions.pages | {
        "template": "template/",
        "fits": "<int:pk>/fits/",
        "trial": "<int:pk>/on/<slug:slug>/<str:direction>.webp",
    }
    import_export_change_list_template = "admin/leaderboard/editpair/change_list.html"
    list_display = (*("title", "tried", "category", "forward", "place", "used", "status"),)
    list_filter = ("status", "category", "change", "reversibility", "place")
    list_per_page = 50
    search_fields = ("slug", "title", "forward", "backward", "object")
    readonly_fields = ("trial", "hard")
    frozen_cases = "edit_pair"
    fieldsets = (
        (
            None,
            {
                "fields": (
                    *("title", "slug", "category", "type", "forward", "backward", "variants"),
                    *("status", "seen_at"),
                )
            },
        ),
        (
            "What happens",
            {"fields": ("change", "operator", "reversibility", "object", "witness", "hard")},
        ),
        (
            "Trips of more than two steps (chain shape)",
            {"fields": ("shape", "steps", "against"), "classes": ("collapse",)},
        ),
        ("Where it fits", {"fields": ("place", "kinds", "present", "absent", "trial")}),
        ("More", {"fields": ("source_text", "target_text", "notes")}),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(count=Count("cases", distinct=True))

    def save_model(self, request: HttpRequest, obj: EditPair, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if doubt := curation.doubt_about(obj.as_core()):
            messages.warning(request, doubt)

    @admin.display(description="cases", ordering="count")
    def used(self, row: Any) -> int:
        return row.count

    @admin.display(description="on images")
    def tried(self, row: EditPair) -> str:
        return format_html(
            '<a href="{}" aria-label="See {} on images">See it</a>',
            reverse("admin:leaderboard_editpair_fits", args=[row.pk]),
            row.title,
        )

    @admin.display(description="predicted difficulty")
    def hard(self, row: EditPair) -> str:
        return f"{row.difficulty} of 5" if row.reversibility else "–"

    @admin.display(description="try it")
    def trial(self, row: EditPair) -> str:
        if not row.pk:
            return "Save the pair first."
        return format_html(
            '<a href="{}">Images that fit, with the edit drawn</a>',
            reverse("admin:leaderboard_editpair_fits", args=[row.pk]),
        )

    def template_view(self, request: HttpRequest) -> HttpResponse:
        """Create pairs in bulk: preview them, then save them as drafts."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = TemplateForm(request.POST or None)
        pairs = form.pairs() if form.is_bound and form.is_valid() else []
        if pairs and "save" in request.POST:
            with transaction.atomic():
                for pair in pairs:
                    pair.save()
            messages.success(request, f"{len(pairs)} draft pair(s) created.")
            return redirect("admin:leaderboard_editpair_changelist")
        return self.page(request, "template", form=form, pairs=pairs)

    def fits_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show every active image with the reasons why this pair does not fit it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        pair = get_object_or_404(EditPair, pk=pk)
        core = pair.as_core()
        sources = list(SourceImage.objects.filter(status=Curation.ACTIVE).select_related("stored"))
        facts = drafts.facts_of(sources, SYMMETRY_SIZE) if pair.operator else {}
        fitting, others = [], []
        for source in sources:
            symmetric = facts[source.slug].symmetric_under if facts else ()
            reasons = curation.misfits(_as_core(source), core, symmetric)
            if reasons:
                others.append((source, reasons))
            else:
                fitting.append(source)
        everything = "all" in request.GET
        return self.page(
            request,
            "fits",
            pair=pair,
            fitting=len(fitting),
            shown=fitting if everything else fitting[:FIRST_SHOWN],
            others=others,
            total=len(sources),
        )

    def trial_view(self, request: HttpRequest, pk: int, slug: str, direction: str) -> HttpResponse:
        """Serve the image after the forward edit, or after both, by a program without noise."""
        if direction not in ("forward", "backward") or not self.has_view_permission(request):
            raise Http404
        pair = get_object_or_404(EditPair, pk=pk)
        source = get_object_or_404(SourceImage.objects.select_related("stored"), slug=slug)
        start = EncodedImage.from_image(sources.prepare(source.stored.read().decoded, PREVIEW_SIZE))
        editor = load_editor("oracle")
        annotations = drafts.prepared_annotations(source, PREVIEW_SIZE)
        try:
            answer = editor.send(start, pair.forward, 1, EditContext(annotations=annotations)).image
            if direction == "backward":
                answer = editor.send(
                    answer, pair.backward, 2, EditContext(start, annotations)
                ).image
        except EditorError as error:
            raise Http404(error.message) from None
        response = HttpResponse(
            encode_webp(answer.decoded, lossless=False), content_type="image/webp"
        )
        response["Cache-Control"] = "private, max-age=60"
        return response


def _as_core(source: SourceImage) -> SuiteImage:
    """Return the image's facts for `curation.misfits`, without opening its file."""
    width, height = sources.working_size(source.stored.width, source.stored.height, PREVIEW_SIZE)
    facts = suite_builder.Facts("", width, height, frozenset())
    annotations = drafts.prepared_annotations(source, PREVIEW_SIZE)
    return suite_builder.from_facts(source, facts, annotations).image
