"""Admin of source images: upload, check, label, activate."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count
from django.forms import Script
from django.http import HttpRequest
from import_export.admin import ExportMixin

from evaluation.content import curation
from evaluation.images import MAX_BYTES
from leaderboard.admin.base import (
    CurationActions,
    HistoryAdmin,
    NoticesConflicts,
    SafeResource,
    WordsField,
    picture,
)
from leaderboard.models import SourceImage, StoredImage, Suite


class AnnotationsWidget(forms.Textarea):
    """The annotations as JSON, below the image they are drawn on."""

    template_name = "admin/leaderboard/sourceimage/annotations.html"
    picture: StoredImage | None = None

    class Media:
        js = (Script("js/annotate.js", defer=True),)

    def get_context(self, *args: Any) -> dict[str, Any]:
        return super().get_context(*args) | {"picture": self.picture}


class SourceImageForm(NoticesConflicts):
    contains = WordsField(help_text="What it shows that pairs may name: chair, cup.")
    file = forms.FileField(
        required=False,
        help_text="PNG, JPEG or WebP, at least 512 pixels on both sides is best. "
        "Given once: a changed picture is a new source image.",
    )

    class Meta:
        model = SourceImage
        exclude = ("stored",)  # set from the file
        widgets = {"annotations": AnnotationsWidget(attrs={"rows": 3, "cols": 80})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            del self.fields["file"]
            self.fields["annotations"].widget.picture = self.instance.stored
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
        hashes = dict(
            SourceImage.objects.exclude(perceptual_hash="").values_list("slug", "perceptual_hash")
        )
        try:
            self.picture = curation.check(
                upload.read(),
                licence=cleaned.get("licence", ""),
                attribution=cleaned.get("attribution", ""),
                known=hashes,
            )
        except curation.Refused as refused:
            raise ValidationError({"file": refused.reasons}) from None
        return cleaned

    def save(self, commit: bool = True) -> SourceImage:
        if not self.instance.pk:
            self.instance.stored = StoredImage.objects.get_or_store(self.picture)
            self.instance.perceptual_hash = curation.fingerprint(self.picture.image)
        return super().save(commit)


class SourceImageResource(SafeResource):
    """An export of the fields of images, without their bytes."""

    class Meta:
        model = SourceImage
        import_id_fields = ("slug",)
        fields = (
            *("slug", "title", "kind", "subkind", "made", "origin", "author", "licence"),
            *("attribution", "source_url", "contains", "status", "stored__sha256"),
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

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(suites=Count("suite_pictures", distinct=True))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        # The pixels of an image never change: only a new one takes a file.
        fields = super().get_fields(request, obj)
        return [name for name in fields if not (obj and name == "file")]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        used = (
            obj is not None
            and obj.suite_pictures.filter(suite__status=Suite.Status.FROZEN).exists()
        )
        return not used and super().has_delete_permission(request, obj)

    @admin.display(description="")
    def thumbnail(self, row: SourceImage) -> str:
        return picture(row.stored, alt=row.title)

    @admin.display(description="picture")
    def preview(self, row: SourceImage) -> str:
        return picture(row.stored, 256, row.title) if row.pk else "–"

    @admin.display(description="annotated")
    def places(self, row: SourceImage) -> str:
        return ", ".join(name.replace("_", " ") for name in row.annotations) or "–"

    @admin.display(description="suites", ordering="suites")
    def used(self, row: Any) -> int:
        return row.suites
