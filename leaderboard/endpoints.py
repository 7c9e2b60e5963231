"""Submitted endpoints: what their addresses may be, in the form, the test and every run."""

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
from leaderboard.models import SecurityEvent, Submission

#: For a look at an address; one that cannot be told about always takes as long.
LOOKUP_SECONDS = 3.0


def rules() -> Rules:
    """Return the rules for submitted addresses: public, and not ours."""
    local, ours = settings.ALLOW_LOCAL_ENDPOINTS, list(settings.OWN_ADDRESSES)
    if not local:
        # The site's own address too: ALLOWED_HOSTS may say "*".
        ours += [*settings.ALLOWED_HOSTS, urlsplit(settings.SITE_URL).hostname or ""]
    return Rules(allow_local=local, deny=tuple(ours))


def host_of(url: str) -> str:
    """The host of an address that may be called, as the harness reads it; "" for any other."""
    try:
        return rules().parse(url).host
    except EditorError:
        return ""


def check_address(url: str, **about: Any) -> str | None:
    """Why this address cannot be called, or None; blocked ones become security events."""

    def record(kind: str, detail: str) -> None:
        SecurityEvent.record(kind, detail, **about)

    start = time.monotonic()
    client = HttpClient(rules(), on_security_event=record)
    try:
        client.check(url, timeout=LOOKUP_SECONDS)
    except EditorError as error:
        told = for_strangers(error)
        if told is not error:
            # Nor does the time tell what our name server knows.
            time.sleep(max(0.0, start + LOOKUP_SECONDS - time.monotonic()))
        return told.message
    finally:
        client.close()
    return None


def rule_options() -> dict[str, Any]:
    """The rules, as an editor takes them."""
    found = rules()
    return {"allow_local": found.allow_local, "deny": found.deny, "ports": tuple(found.ports)}


def check_key_goes_home(editor: str, options: Mapping[str, Any]) -> None:
    """Raise EditorError where a row would have the environment's key sent to another host.

    Rows are edited by people who may not read the key; PROVIDER_HOSTS are named by those who
    set it.
    """
    url = options.get("base_url")
    kind = editor_class(editor)
    if not url or kind is None or not issubclass(kind, HostedEditor):
        return
    host = urlsplit(str(url)).hostname or ""
    local = settings.ALLOW_LOCAL_ENDPOINTS and host in ("127.0.0.1", "localhost", "::1")
    if not (local or host in settings.PROVIDER_HOSTS or kind.is_home(str(url))):
        raise EditorError(
            f"base_url: {host or 'this'} is no host of {kind.provider}, and the key would be sent "
            "there. Whoever keeps the site can allow it by the setting PROVIDER_HOSTS.",
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
