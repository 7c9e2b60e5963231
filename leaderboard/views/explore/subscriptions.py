"""Following a model, a suite or a submission by mail or webhook, and leaving again."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from evaluation.content.suites import find_suite
from leaderboard import endpoints
from leaderboard.board.rows import suites
from leaderboard.models import EditingModel, Submission, Subscription, Use
from leaderboard.subscriptions.sending import ask_to_confirm
from leaderboard.subscriptions.telling import say_hello
from leaderboard.views.crawlers import noindex
from leaderboard.visitors import client_network, limited

Way = Subscription.Way
#: Subscriptions a day of one network, and to one mailbox or host: it is written to before
#: anybody there agreed.
PER_DAY, PER_ADDRESS = 20, 3


class SubscribeForm(forms.Form):
    way = forms.ChoiceField(choices=Way.choices, label="How")
    address = forms.CharField(
        max_length=2000,
        label="Mail address, or the webhook’s address",
        help_text="A mail address gets one mail to confirm. A webhook is an address of yours that "
        "gets a signed POST request for each message.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not settings.EMAIL_URL:
            way = self.fields["way"]
            assert isinstance(way, forms.ChoiceField)  # noqa: S101
            way.choices = [(Way.WEBHOOK.value, Way.WEBHOOK.label)]
            way.initial, way.widget = Way.WEBHOOK.value, forms.HiddenInput()
            self.fields["address"].label = "The webhook’s address"
            self.fields["address"].help_text = (
                "This site sends no mail. A webhook is an address of yours that gets a signed POST "
                "request for each message."
            )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        way, address = values.get("way"), values.get("address", "")
        if way == Way.EMAIL and address:
            values["address"] = forms.EmailField().clean(address)
        elif way == Way.WEBHOOK and address and (fault := endpoints.check_address(address)):
            raise forms.ValidationError({"address": f"{fault[:1].upper()}{fault[1:]}."})
        return values


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@noindex
def subscribe(request: HttpRequest) -> HttpResponse:
    """The form for what the address names: ?model=, ?suite= or ?submission=."""
    subject = _subject(request)
    if request.method != "POST":
        return _form(request, subject, SubscribeForm())
    if too_many := limited(request, "subscribe"):
        return too_many
    form = SubscribeForm(request.POST)
    if not form.is_valid():
        return _form(request, subject, form)
    network = {"network": client_network(request) or "unknown"}
    # By address too: nobody is written to more often, whoever asks.
    address = {"address": mailbox_or_host(form.cleaned_data["address"])}
    if Use.objects.take("subscribe", network, PER_DAY) or Use.objects.take(
        "subscribe to", address, PER_ADDRESS
    ):
        form.add_error(None, "Too many subscriptions today; please come back tomorrow.")
        return _form(request, subject, form)
    with transaction.atomic():
        made = Subscription.objects.create(**subject, **form.cleaned_data)
        if made.way == Way.WEBHOOK:
            say_hello(made)
    if made.way == Way.EMAIL:
        ask_to_confirm(made)
        # Only the mail has the link: who cannot read it cannot confirm.
        return render(request, "leaderboard/subscribed.html", {"subscription": made})
    return redirect(made)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@noindex
def subscription(request: HttpRequest, token: str) -> HttpResponse:
    """One subscription, for who has its link: confirm it, see how it goes, end it."""
    found = get_object_or_404(Subscription, token=token)
    if request.method == "POST":
        now, own = timezone.now(), Subscription.objects.filter(pk=found.pk, ended_at=None)
        if request.POST.get("do") == "confirm" and found.way == Way.EMAIL:
            own.filter(confirmed_at=None).update(confirmed_at=now)
        elif request.POST.get("do") == "end":
            own.update(ended_at=now)
        return redirect(found)
    last = found.deliveries.order_by("-pk")[:5]
    context = {"subscription": found, "deliveries": last, "secret": found.secret.reveal()}
    response = render(request, "leaderboard/subscription.html", context)
    # Not "no-referrer": browsers would then send the forms on the page without an origin.
    response["Referrer-Policy"] = "same-origin"
    return response


def mailbox_or_host(address: str) -> str:
    """Whom the address reaches: other tags of a mailbox, or other paths of a host, are the same."""
    if host := endpoints.host_of(address):
        return host
    name, _, domain = address.rpartition("@")
    return f"{name.partition('+')[0]}@{domain}"


def _subject(request: HttpRequest) -> dict[str, Any]:
    """What is to be followed; 404 where that is not public or not there."""
    model, suite, submission = (
        request.GET.get(name, "") for name in ("model", "suite", "submission")
    )
    if model:
        published = EditingModel.objects.filter(status=EditingModel.Status.PUBLISHED)
        return {"editing_model": get_object_or_404(published, slug=model)}
    if suite and (found := find_suite(suite, suites())):
        return {"suite": found}
    if submission:
        return {"submission": get_object_or_404(Submission, token=submission)}
    raise Http404("say what to follow: a model, a suite or a submission")


def _form(request: HttpRequest, subject: dict[str, Any], form: SubscribeForm) -> HttpResponse:
    (name,) = subject.values()
    context = {"form": form, "subject": name, "mails": bool(settings.EMAIL_URL)}
    return render(request, "leaderboard/subscribe.html", context)
