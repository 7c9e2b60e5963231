"""Submitted endpoints: which addresses may be called, and daily quotas."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from evaluation.editors import editor_class
from evaluation.editors.providers.base import HostedEditor
from evaluation.errors import EditorError, Fault
from evaluation.net.addresses import Rules, public_error
from evaluation.net.client import HttpClient
from leaderboard.models import SecurityEvent, Submission, Use
from leaderboard.visitors import network_of

#: Time limit of a DNS lookup. A check whose reason is hidden from visitors always takes this long.
LOOKUP_SECONDS = 3.0


def rules() -> Rules:
    """Return the rules for a submitted address: it must be public and not belong to this site."""
    local, denied = settings.ALLOW_LOCAL_ENDPOINTS, list(settings.OWN_ADDRESSES)
    if not local:
        # ALLOWED_HOSTS may be "*", so the site's own host is added.
        denied += [*settings.ALLOWED_HOSTS, urlsplit(settings.SITE_URL).hostname or ""]
    return Rules(allow_local=local, deny=tuple(denied))


def host_of(url: str) -> str:
    """Return the host of a URL, or "" if the URL may not be called."""
    try:
        return rules().parse(url).host
    except EditorError:
        return ""


def check_address(url: str, **about: Any) -> str | None:
    """Return why this URL may not be called, or None if it may.

    Blocked URLs are stored as security events, with the fields `about`.
    """

    def record(kind: str, detail: str) -> None:
        SecurityEvent.record(kind, detail, **about)

    start = time.monotonic()
    client = HttpClient(rules(), on_security_event=record)
    try:
        client.check(url, timeout=LOOKUP_SECONDS)
    except EditorError as error:
        shown = public_error(error)
        if shown is not error:
            # The duration must not reveal the hidden answer of the name server.
            time.sleep(max(0.0, start + LOOKUP_SECONDS - time.monotonic()))
        return shown.message
    finally:
        client.close()
    return None


def rule_options() -> dict[str, Any]:
    """Return the rules for addresses as options of an editor."""
    current = rules()
    return {"allow_local": current.allow_local, "deny": current.deny, "ports": tuple(current.ports)}


def check_key_destination(editor: str, options: Mapping[str, Any]) -> None:
    """Check that a model's options send the provider's key to that provider only.

    The key is in the environment, and admins who edit models must not be able to read it. The
    setting PROVIDER_HOSTS allows more hosts. Raises EditorError.
    """
    url = options.get("base_url")
    kind = editor_class(editor)
    if not url or kind is None or not issubclass(kind, HostedEditor):
        return
    host = urlsplit(str(url)).hostname or ""
    local = settings.ALLOW_LOCAL_ENDPOINTS and host in ("127.0.0.1", "localhost", "::1")
    if not (local or host in settings.PROVIDER_HOSTS or kind.is_known_host(str(url))):
        raise EditorError(
            f"base_url: {host or 'this'} is not a host of {kind.provider}, so the key is not "
            "sent there. An operator can allow the host with the setting PROVIDER_HOSTS.",
            fault=Fault.CONFIGURATION,
            permanent=True,
        )


def editor_options(submission: Submission) -> dict[str, Any]:
    """Return the options of an editor that calls the submitted endpoint, without its key."""
    price = submission.price_per_edit
    return {
        "url": submission.endpoint_url,
        "contract": submission.contract,
        "model": submission.model_id,
        "price": None if price is None else float(price),
        **submission.options,
    }


def count_submission(email: str, address: str | None, url: str) -> str | None:
    """Count a submission towards the daily quotas. Returns a message if a quota is used up."""
    subjects = _subjects(email, address, url)
    # A failed test does not count as a submission, but it counts as a test.
    if subject := Use.objects.take("probe", subjects, settings.PROBES_PER_DAY):
        limit = settings.PROBES_PER_DAY
        return (
            f"Tests of {subject} have reached the limit of {limit} in 24 hours. Please come "
            "back tomorrow."
        )
    limit = settings.SUBMISSIONS_PER_DAY
    subject = Use.objects.take("submission", subjects, limit)
    return subject and (
        f"Submissions from {subject} have reached the limit of {limit} in 24 hours. "
        "A submission whose test failed does not count: correct it on its own page."
    )


def uncount_submission(submission: Submission) -> None:
    """Give back the quota that a submission has used, because its test failed."""
    subjects = _subjects(submission.email, submission.remote_address, submission.endpoint_url)
    Use.objects.give_back("submission", subjects)


def _subjects(email: str, address: str | None, url: str) -> dict[str, str]:
    """Return the subjects whose quotas a submission uses, by their names in messages."""
    subjects = {"this e-mail address": f"e-mail {email}", "this endpoint": f"host {host_of(url)}"}
    if address:
        subjects["your network address"] = f"network {network_of(address)}"
    return subjects
