"""Contribute a run: the form, its storage, and its withdrawal."""

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
from leaderboard.contributions.importing import LIMITS
from leaderboard.models import ContributedRun, EditingModel, Run, Use
from leaderboard.models.entries import taken_name
from leaderboard.standings import refresh_ranks
from leaderboard.text import PlainCharField, skeleton
from leaderboard.visitors import network_of

log = structlog.get_logger(__name__)
State = ContributedRun.State


class NotAccepted(Exception):
    """Raised if a run cannot be accepted now; the message is shown to the contributor."""


class ContributionForm(forms.ModelForm):
    """The contributor, the model's name and the bundle."""

    name = PlainCharField(
        label="Model name", min_length=2, max_length=80, help_text="The name on the board."
    )
    contributed_by = PlainCharField(
        label="Contributor",
        min_length=2,
        max_length=120,
        help_text="You or your group. Public: the board names the contributor of a run.",
    )
    email = forms.EmailField(
        label="Contact e-mail", max_length=254, help_text="In case we have questions. Never shown."
    )
    paper_url = forms.URLField(label="Paper", required=False, max_length=500, assume_scheme="https")
    code_url = forms.URLField(label="Code", required=False, max_length=500, assume_scheme="https")
    bundle = forms.FileField(
        label="The bundle",
        allow_empty_file=False,
        widget=forms.ClearableFileInput({"accept": ".zip,application/zip"}),
        help_text="The zip file that convergebench bundle RUN wrote, with images.",
    )
    # A honeypot: people do not see the field, so they leave it empty.
    website = forms.CharField(
        required=False, widget=forms.TextInput(attrs={"tabindex": "-1", "autocomplete": "off"})
    )

    class Meta:
        model = ContributedRun
        fields = ("name", "contributed_by", "email", "paper_url", "code_url")

    def __init__(self, *args: Any, before: ContributedRun | None = None, **kwargs: Any) -> None:
        """Fill in the form from `before`, an earlier run of this model by this contributor."""
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
                f"“{taken}” is already on this site. Choose another name. If it is your model, "
                "contribute this run from the private page of an earlier one."
            )
        return name

    def clean_website(self) -> str:
        if self.cleaned_data["website"]:
            raise ValidationError("Leave this field empty.")
        return ""

    def clean_bundle(self) -> UploadedFile:
        """Check the size of the file and of its directory, without unpacking it."""
        file: UploadedFile = self.cleaned_data["bundle"]
        limit = settings.CONTRIBUTED_BYTES
        if (file.size or 0) > limit:
            raise ValidationError(
                f"The file is larger than {limit // 2**20} MB. Please write to us about larger "
                "runs."
            )
        try:
            archives.check_directory(cast(IO[bytes], file.file), LIMITS["max_entries"])
        except (ArchiveError, OSError, ValueError) as error:
            raise ValidationError(f"This is not a bundle: {error}.") from None
        file.seek(0)
        return file


def accept(form: ContributionForm, address: str | None) -> ContributedRun:
    """Store the run of a valid form and enqueue its check.

    Raises NotAccepted if too many runs are waiting or the contributor's limit is reached.
    """
    if ContributedRun.objects.waiting().count() >= settings.CONTRIBUTED_RUNS_WAITING:
        raise NotAccepted("Too many runs are waiting to be checked. Please try again in an hour.")
    limit = settings.CONTRIBUTED_RUNS_PER_DAY
    network = network_of(address) if address else "unknown"
    subjects = {
        "this e-mail address": f"e-mail {form.cleaned_data['email']}",
        "your network address": f"network {network}",
    }
    if subject := Use.objects.take("contributed run", subjects, limit):
        raise NotAccepted(f"Runs from {subject} have reached the limit of {limit} in 24 hours.")
    file: UploadedFile = form.cleaned_data["bundle"]
    contribution: ContributedRun = form.save(commit=False)
    contribution.remote_address, contribution.bytes = address, file.size or 0
    if form.before:
        contribution.editing_model = form.before.editing_model
    # Save the file first: a row without a file could not be checked, but a file without a row
    # is deleted later.
    default_storage.save(contribution.file_name, file)
    contribution.save()
    job_queue.enqueue(contribution.pk, job_queue.CHECK_CONTRIBUTED, job_queue.GPU)
    log.info("run contributed", contribution=contribution.pk, bytes=contribution.bytes)
    return contribution


def withdraw(contribution: ContributedRun) -> None:
    """Withdraw a run: hide it, and delete its file and the contributor's e-mail and IP address."""
    with transaction.atomic():
        row = ContributedRun.objects.select_for_update().get(pk=contribution.pk)
        if row.state == State.WITHDRAWN:
            return
        row.state, row.email, row.remote_address = State.WITHDRAWN, "", None
        row.lease_until, row.ended_at = None, timezone.now()
        row.save()
        if row.run:
            _hide(row.run)
    default_storage.delete(contribution.file_name)
    log.info("contributed run withdrawn", contribution=contribution.pk)


def _hide(run: Run) -> None:
    Run.objects.filter(pk=run.pk).withdraw()
    model = run.editing_model
    if not model.runs.filter(published=True).exists():
        EditingModel.objects.filter(pk=model.pk).update(status=EditingModel.Status.HIDDEN)
    refresh_ranks(run.suite)
