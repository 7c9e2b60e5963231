"""The submission form: everything is checked before anything is queued."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, cast

from django import forms
from django.contrib.humanize.templatetags.humanize import intcomma
from django.core.exceptions import ValidationError
from django.db import transaction

from evaluation.editors.contracts import CONTRACTS, Settings, as_curl, find_contract
from evaluation.editors.contracts.base import MAX_EXTRA_LENGTH
from evaluation.errors import EditorError
from evaluation.untrusted_json import parse_strictly
from leaderboard import endpoints
from leaderboard.formatting import count
from leaderboard.models import ApiToken, Submission, Suite, Use
from leaderboard.models.entries import taken_name
from leaderboard.submissions import workflow
from leaderboard.submissions.workflow import MAX_KEY, can_be_key
from leaderboard.text import PlainCharField, secret_names, skeleton


class SuiteChoiceField(forms.ModelChoiceField):
    """A choice of suites, labelled with their edits because the submitter pays for them."""

    def label_from_instance(self, obj: Any) -> str:
        edits = intcomma(obj.edit_count)
        return f"{obj}: {edits} edits, up to {count(obj.trips, 'round trip')} at {obj.size} px"


#: Suite proposed by the form: large enough to rank by, at a tenth of the standard suite's cost.
DEFAULT_SUITE = "lite"
#: Ways in which a request may state the size.
SIZES = (
    ("input", "The size of the image we send"),
    ("omit", "Send no size"),
    *((size, size.replace("x", " x ")) for size in ("512x512", "768x768", "1024x1024")),
    *((size, size.replace("x", " x ")) for size in ("1536x1024", "1024x1536", "2048x2048")),
)


class EndpointForm(forms.ModelForm):
    """The settings of an endpoint. Settings without a database column are stored in `options`."""

    contract = forms.ChoiceField(
        label="API format",
        choices=[(name, c.label) for name, c in CONTRACTS.classes().items()],
    )
    endpoint_url = forms.CharField(
        label="Endpoint address",
        max_length=2000,
        widget=forms.URLInput(attrs={"placeholder": "https://api.example.org/v1"}),
        help_text="https, reachable from the internet. The page shows the exact request below.",
    )
    model_id = PlainCharField(
        label="Model id",
        required=False,
        max_length=200,
        help_text="Sent as “model” if the API format supports it.",
    )
    extra = forms.CharField(
        label="Extra parameters",
        required=False,
        max_length=MAX_EXTRA_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3, "placeholder": '{"guidance_scale": 4.5}'}),
        help_text="A JSON object, merged into every request.",
    )
    send_seed = forms.BooleanField(label="Send a seed", required=False, initial=True)
    send_response_format = forms.BooleanField(
        label="Send response_format", required=False, initial=True
    )
    size = forms.ChoiceField(
        choices=SIZES,
        initial="input",
        help_text="The size field of the request, if the API format supports it.",
    )

    class Meta:
        model = Submission
        fields: tuple[str, ...] = ("endpoint_url", "contract", "model_id")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            options = dict(self.instance.options)
            extra = options.pop("extra", None)
            self.initial.update(options, extra=json.dumps(extra) if extra else "")

    def mark_errors(self) -> None:
        """Mark the invalid inputs of a bound form."""
        for name, field in self.fields.items():
            if self.is_bound and name in self.errors:
                field.widget.attrs |= {"aria-invalid": "true", "aria-describedby": f"error-{name}"}

    def clean_endpoint_url(self) -> str:
        url = self.cleaned_data["endpoint_url"]
        if problem := endpoints.check_address(url):
            raise ValidationError(_sentence(problem))
        return url

    def clean_extra(self) -> dict[str, Any]:
        text = self.cleaned_data["extra"].strip()
        if not text:
            return {}
        try:
            extra = parse_strictly(text)
        except ValueError as error:
            raise ValidationError(f"This is not valid JSON: {error}") from None
        if not isinstance(extra, dict):
            raise ValidationError('Enter a JSON object, such as {"steps": 30}.')
        if secret := secret_names(extra):
            raise ValidationError(
                f"Enter the key in its own field and remove {', '.join(secret)} from here."
            )
        return extra

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if {"endpoint_url", "extra", "size"} <= cleaned.keys():
            try:
                settings = self.settings(cleaned)
                find_contract(settings.contract).check(settings)
            except EditorError as error:
                raise ValidationError(_sentence(error.message)) from None
        return cleaned

    @staticmethod
    def settings(values: Mapping[str, Any]) -> Settings:
        """Return the settings of the endpoint without the key."""
        return Settings(
            url=values.get("endpoint_url") or "https://api.example.org/v1",
            contract=values.get("contract") or "openai-edits",
            model=values.get("model_id") or "",
            extra=values.get("extra") or {},
            send_seed=bool(values.get("send_seed")),
            send_response_format=bool(values.get("send_response_format")),
            size=values.get("size") or "input",
        )

    @property
    def options(self) -> dict[str, Any]:
        """Return the fields of the form that have no database column."""
        names = ("extra", "send_seed", "send_response_format", "size")
        return {name: self.cleaned_data[name] for name in names}

    def save(self, commit: bool = True) -> Submission:
        """Store the changed endpoint of a submission; the caller must test it again."""
        submission: Submission = super().save(commit=False)
        submission.options = self.options
        if commit:
            # Save no other fields: this object may be outdated.
            submission.save(update_fields=[*self.Meta.fields, "options"])
        return submission


class SubmissionForm(EndpointForm):
    """A whole submission: submitter, endpoint and settings."""

    name = PlainCharField(label="Model name", min_length=2, max_length=80)
    organisation = PlainCharField(required=False, max_length=120)
    licence = PlainCharField(required=False, max_length=120)
    paper_url = forms.URLField(label="Paper", required=False, max_length=500, assume_scheme="https")
    code_url = forms.URLField(label="Code", required=False, max_length=500, assume_scheme="https")
    api_key = forms.CharField(
        label="API key",
        required=False,
        max_length=MAX_KEY,
        strip=True,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Sent as “Authorization: Bearer …”. Stored encrypted, never shown again.",
    )
    price_per_edit = forms.DecimalField(
        label="Price per edit (USD)",
        required=False,
        min_value=0,
        max_value=100,
        decimal_places=5,
        help_text="Shown on the board, which visitors can sort by price.",
    )
    max_in_flight = forms.IntegerField(
        label="Calls at once",
        initial=4,
        min_value=1,
        max_value=64,
        help_text="The number of edits that your endpoint handles at once.",
    )
    suite = SuiteChoiceField(
        queryset=Suite.objects.none(),
        empty_label=None,
        help_text="Your endpoint gets one request for each edit, some that test for cheating, "
        "and a few more if requests fail.",
    )
    idempotency_key = forms.UUIDField(widget=forms.HiddenInput)
    # A honeypot: people do not see the field, so they leave it empty.
    website = forms.CharField(
        required=False, widget=forms.TextInput(attrs={"tabindex": "-1", "autocomplete": "off"})
    )

    class Meta(EndpointForm.Meta):
        fields = (
            *("name", "organisation", "email", "paper_url", "code_url", "open_weights", "licence"),
            *("endpoint_url", "contract", "model_id", "price_per_edit", "max_in_flight", "suite"),
        )

    def __init__(
        self,
        *args: Any,
        remote_address: str | None = None,
        sender: ApiToken | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.remote_address, self.sender = remote_address, sender
        suites = Suite.objects.playable().with_edits().defer("definition")
        cast(forms.ModelChoiceField, self.fields["suite"]).queryset = suites
        self.initial.setdefault("suite", suites.filter(slug=DEFAULT_SUITE).first())
        self.initial.setdefault("idempotency_key", uuid.uuid4())
        self.mark_errors()

    def sent_before(self) -> Submission | None:
        """Return the submission that this form has already created, if any."""
        try:
            key = forms.UUIDField().clean(self.data.get("idempotency_key"))
        except ValidationError:
            return None
        return Submission.objects.filter(idempotency_key=self._key(key)).first()

    def _key(self, key: uuid.UUID) -> str:
        return self.sender.scoped_key(key.hex) if self.sender else key.hex

    def clean_name(self) -> str:
        name = self.cleaned_data["name"]
        if len(skeleton(name)) < 2:
            raise ValidationError("A name needs at least two letters or digits.")
        if taken := taken_name(name):
            raise ValidationError(
                f"“{taken}” is already on this site. Choose another name. If it is your model, "
                "write to us, and we will mark it as confirmed."
            )
        return name

    def clean_api_key(self) -> str:
        key = self.cleaned_data["api_key"]
        if key and not can_be_key(key):
            raise ValidationError("A key has no spaces, line breaks or special characters.")
        return key

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("website"):
            raise ValidationError("Please leave the field “website” empty.")
        if not self.errors and (message := self._use_quota(cleaned)):
            raise ValidationError(message, code="quota")
        return cleaned

    @transaction.atomic
    def _use_quota(self, cleaned: dict[str, Any]) -> str | None:
        """Count the submission, once per form; return a message if a quota is used up."""
        use = Use.objects.locked("submitted form", self._key(cleaned["idempotency_key"]))
        if use.count:
            return None
        message = endpoints.count_submission(
            cleaned["email"], self.remote_address, cleaned["endpoint_url"]
        )
        if not message:
            use.count = 1
            use.save(update_fields=["count"])
        return message

    def save(self, commit: bool = True) -> Submission:
        values = self.cleaned_data
        submission = super().save(commit=False)
        submission.api_key = values["api_key"]
        submission.idempotency_key = self._key(values["idempotency_key"])
        submission.remote_address, submission.api_token = self.remote_address, self.sender
        return workflow.save_once(submission)


def submission_curl(submission: Submission) -> str:
    """Return the request to a submitted endpoint as a curl command without the key."""
    fields = endpoints.editor_options(submission) | {"endpoint_url": submission.endpoint_url}
    settings = EndpointForm.settings(fields | {"model_id": submission.model_id})
    return _as_curl(settings, submission.suite.size)


def form_curl(values: Any) -> str:
    """Return the request of an unfinished form as a curl command, or a comment with the problem."""
    fields = {name: values.get(name) for name in EndpointForm.base_fields}
    try:
        extra = json.loads(fields["extra"] or "{}")
    except (ValueError, RecursionError):
        return "# The extra parameters are not JSON yet."
    fields["extra"] = extra if isinstance(extra, dict) else {}
    return _as_curl(EndpointForm.settings(fields), _side(values.get("suite")))


def _as_curl(settings: Settings, side: int) -> str:
    try:
        find_contract(settings.contract).check(settings)
        return as_curl(settings, size=(side, side))
    except EditorError as error:
        return f"# {error.message}"
    except (ValueError, RecursionError):
        return "# The extra parameters are not JSON yet."


def _side(suite: Any) -> int:
    """Return the side of a square image of a suite; `suite` is a primary key from a form."""
    rows = Suite.objects.playable()
    if str(suite).isdecimal() and len(str(suite)) < 10:
        rows = rows.filter(pk=suite)
    return rows.values_list("size", flat=True).first() or 1024


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")
