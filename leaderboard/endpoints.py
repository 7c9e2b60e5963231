"""Submitted endpoints: rules for addresses, and daily limits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from evaluation.editors import editor_class
from evaluation.editors.providers.base import HostedEditor
from evaluation.errors import EditorError, Fault
from evaluation.net.addresses import Rules, for_strangers
from evaluation.net.client import HttpClient
from leaderboard.models import SecurityEvent, Submission, Use
from leaderboard.visitors import network_of

#: Time limit of a lookup; a lookup with a hidden result always takes this long.
LOOKUP_SECONDS = 3.0


def rules() -> Rules:
    """Return the rules for submitted addresses: public, and not ours."""
    local, ours = settings.ALLOW_LOCAL_ENDPOINTS, list(settings.OWN_ADDRESSES)
    if not local:
        # The site's own address too: ALLOWED_HOSTS may be "*".
        ours += [*settings.ALLOWED_HOSTS, urlsplit(settings.SITE_URL).hostname or ""]
    return Rules(allow_local=local, deny=tuple(ours))


def host_of(url: str) -> str:
    """Return the host of an address that may be called; "" for any other."""
    try:
        return rules().parse(url).host
    except EditorError:
        return ""


def check_address(url: str, **about: Any) -> str | None:
    """Return why this address cannot be called, or None.

    Blocked addresses are stored as security events.
    """

    def record(kind: str, detail: str) -> None:
        SecurityEvent.record(kind, detail, **about)

    start = time.monotonic()
    client = HttpClient(rules(), on_security_event=record)
    try:
        client.check(url, timeout=LOOKUP_SECONDS)
    except EditorError as error:
        shown = for_strangers(error)
        if shown is not error:
            # The time must not reveal the name server's answer either.
            time.sleep(max(0.0, start + LOOKUP_SECONDS - time.monotonic()))
        return shown.message
    finally:
        client.close()
    return None


def rule_options() -> dict[str, Any]:
    """Return the rules as options of an editor."""
    current = rules()
    return {"allow_local": current.allow_local, "deny": current.deny, "ports": tuple(current.ports)}


def check_key_goes_home(editor: str, options: Mapping[str, Any]) -> None:
    """Raise EditorError if a row would send the environment's key to another host.

    Editors of rows may not read the key; those who set the key also set PROVIDER_HOSTS.
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
            "sent there. An operator can allow it with the setting "
            "PROVIDER_HOSTS.",
            fault=Fault.CONFIGURATION,
            permanent=True,
        )


def own_options(submission: Submission) -> dict[str, Any]:
    """Return the submitted endpoint as options of an editor, without the key."""
    price = submission.price_per_edit
    return {
        "url": submission.endpoint_url,
        "contract": submission.contract,
        "model": submission.model_id,
        "price": None if price is None else float(price),
        **submission.options,
    }


def take_submission(email: str, address: str | None, url: str) -> str | None:
    """Count a submission; return the exhausted daily quota in words, or None."""
    subjects = _subjects(email, address, url)
    # Failed tests give submissions back, but no tests.
    if full := Use.objects.take("probe", subjects, settings.PROBES_PER_DAY):
        limit = settings.PROBES_PER_DAY
        return f"{limit} tests for {full} in the last 24 hours. Please come back tomorrow."
    limit = settings.SUBMISSIONS_PER_DAY
    full = Use.objects.take("submission", subjects, limit)
    return full and (
        f"{limit} submissions came from {full} in the last 24 hours; the limit is {limit}. "
        "A submission whose test failed does not count: correct it on its own page."
    )


def give_submission_back(submission: Submission) -> None:
    """Uncount a submission whose test failed."""
    subjects = _subjects(submission.email, submission.remote_address, submission.endpoint_url)
    Use.objects.give_back("submission", subjects)


def _subjects(email: str, address: str | None, url: str) -> dict[str, str]:
    """Return what a submission counts for, by its name for people."""
    subjects = {"this e-mail address": f"e-mail {email}", "this endpoint": f"host {host_of(url)}"}
    if address:
        subjects["your network address"] = f"network {network_of(address)}"
    return subjects
