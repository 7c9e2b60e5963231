"""Who asks, and how often they may."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django_ratelimit.core import get_usage

RATE = "20/h"


def client_address(request: HttpRequest) -> str | None:
    """The visitor's address: behind N trusted proxies the N-th from the right, else the peer's."""
    hops = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",")]
    behind = settings.TRUSTED_PROXIES
    told = hops[-behind] if behind and len(hops) >= behind else ""
    for address in (told, request.META.get("REMOTE_ADDR") or ""):
        try:
            return str(ipaddress.ip_address(address))
        except ValueError:
            continue  # nothing, a unix socket, or a proxy that writes something else
    return None


def limited(request: HttpRequest, what: str, rate: str = RATE) -> HttpResponse | None:
    """A 429 page when this address asks too often; the true limits are the daily quotas."""
    usage = get_usage(
        request,
        group=what,
        key=lambda _group, r: client_address(r) or "unknown",
        rate=rate,
        increment=True,
    )
    if not usage or not usage["should_limit"]:
        return None
    response = render(
        request, "leaderboard/too_many.html", {"minutes": -(-usage["time_left"] // 60)}, status=429
    )
    response["Retry-After"] = str(usage["time_left"])
    return response
