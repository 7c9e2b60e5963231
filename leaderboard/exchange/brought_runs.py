"""Bring a run: the form, what it keeps, and how whoever brought it takes it back."""

from __future__ import annotations

from typing import IO, Any, cast

import structlog
from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.utils import timezone

from evaluation.content import archives
from evaluation.content.archives import ArchiveError
from leaderboard import job_queue
from leaderboard.imports.limits import LIMITS
from leaderboard.imports.models import taken_name
from leaderboard.models import BroughtRun, EditingModel, Run, Use
from leaderboard.standings import refresh_ranks
from leaderboard.submissions.forms import PlainCharField
from leaderboard.text import skeleton
from leaderboard.visitors import network_of

log = structlog.get_logger(__name__)
State = BroughtRun.State


class NotTaken(Exception):
    """A run that cannot be taken now; written for people."""


class BringForm(forms.ModelForm):
    """Who brings what, under which name."""

    name = PlainCharField(
        label="Model name", min_length=2, max_length=80, help_text="As the board will call it."
    )
    brought_by = PlainCharField(
        label="Who brings it",
        min_length=2,
        max_length=120,
        help_text="You or your group. Public: the board says who brought a run.",
    )
    email = forms.EmailField(
        label="Contact e-mail", max_length=254, help_text="For questions of ours. Never shown."
    )
    paper_url = forms.URLField(label="Paper", required=False, max_length=500, assume_scheme="https")
    code_url = forms.URLField(label="Code", required=False, max_length=500, assume_scheme="https")
    bundle = forms.FileField(
        label="The bundle",
        allow_empty_file=False,
        widget=forms.ClearableFileInput({"accept": ".zip,application/zip"}),
        help_text="The zip that convergebench bundle RUN wrote, with its pictures.",
    )
    # People leave it empty because they do not see it.
    website = forms.CharField(
        required=False, widget=forms.TextInput(attrs={"tabindex": "-1", "autocomplete": "off"})
    )

    class Meta:
        model = BroughtRun
        fields = ("name", "brought_by", "email", "paper_url", "code_url")

    def __init__(self, *args: Any, before: BroughtRun | None = None, **kwargs: Any) -> None:
        """`before` is a run of the same model that the same person brought."""
        super().__init__(*args, **kwargs)
        self.before = before
        if before:
            self.initial.update({name: getattr(before, name) for name in self.Meta.fields})
            self.fields["name"].disabled = True
        for name, field in self.fields.items():
            if self.is_bound and name in self.errors:
                field.widget.attrs |= {"aria-invalid": "true", "aria-describedby": f"error-{name}"}

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if self.before:
            return self.before.name
        if len(skeleton(name)) < 2:
            raise ValidationError("A name needs at least two letters or digits.")
        if taken := taken_name(name):
            raise ValidationError(
                f"“{taken}” is on the site already, and a name cannot be taken over. Choose one of "
                "your own; another run of a model that you brought is brought from its own page."
            )
        return name

    def clean_website(self) -> str:
        if self.cleaned_data["website"]:
            raise ValidationError("Leave this empty.")
        return ""

    def clean_bundle(self) -> UploadedFile:
        """The file, by its size and the length of its list of entries: nothing is unpacked here."""
        file: UploadedFile = self.cleaned_data["bundle"]
        limit = settings.BROUGHT_BYTES
        if (file.size or 0) > limit:
            raise ValidationError(f"The file has more than {limit // 2**20} MB; write to us.")
        try:
            archives.check_directory(cast(IO[bytes], file.file), LIMITS["max_directory"])
        except (ArchiveError, OSError, ValueError) as error:
            raise ValidationError(f"This is not a bundle: {error}.") from None
        file.seek(0)
        return file


def take(form: BringForm, address: str | None) -> BroughtRun:
    """Keep the run of a valid form and have it checked; NotTaken where there is no room."""
    if BroughtRun.objects.waiting().count() >= settings.BROUGHT_RUNS_WAITING:
        raise NotTaken("Too many runs wait to be checked. Please come back in an hour.")
    limit = settings.BROUGHT_RUNS_PER_DAY
    network = network_of(address) if address else "unknown"
    subjects = {
        "this e-mail address": f"e-mail {form.cleaned_data['email']}",
        "your network address": f"network {network}",
    }
    if full := Use.objects.take("brought run", subjects, limit):
        raise NotTaken(f"{limit} runs came from {full} in the last 24 hours; the limit is {limit}.")
    file: UploadedFile = form.cleaned_data["bundle"]
    brought: BroughtRun = form.save(commit=False)
    brought.remote_address, brought.bytes = address, file.size or 0
    if form.before:
        brought.editing_model = form.before.editing_model
    # Its file first: a row without one could not be checked, a file without a row is removed.
    default_storage.save(brought.file_name, file)
    brought.save()
    job_queue.enqueue(brought.pk, job_queue.CHECK_BROUGHT, job_queue.GPU)
    log.info("run brought", brought=brought.pk, bytes=brought.bytes)
    return brought


def withdraw(brought: BroughtRun) -> None:
    """Take a run back: its page says so, and its name, address and file are forgotten."""
    with transaction.atomic():
        row = BroughtRun.objects.select_for_update().get(pk=brought.pk)
        if row.state == State.WITHDRAWN:
            return
        row.state, row.email, row.remote_address = State.WITHDRAWN, "", None
        row.lease_until, row.ended_at = None, timezone.now()
        row.save()
        if row.run:
            _hide(row.run)
    default_storage.delete(brought.file_name)
    log.info("brought run withdrawn", brought=brought.pk)


def _hide(run: Run) -> None:
    Run.objects.filter(pk=run.pk).withdraw()
    model = run.editing_model
    if not model.runs.filter(published=True).exists():
        EditingModel.objects.filter(pk=model.pk).update(status=EditingModel.Status.HIDDEN)
    refresh_ranks(run.suite)
