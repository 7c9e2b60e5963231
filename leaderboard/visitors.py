"""Network addresses of visitors, and rate limits."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django_ratelimit.core import get_usage

#: Rate limits per network, by name of the view. They are for views that cost more than a page;
#: other views are cached (leaderboard.page_cache) or cost a few queries.
LIMITS = {
    "submit": "20/h",
    "submission_act": "20/h",
    "submit_preview": "600/h",
    "upload_chain": "20/h",
    "contribute": "20/h",
    "withdraw_contributed_run": "20/h",
    "vote_session": "120/h",
    "compare": "240/h",
    "compare_card": "240/h",
    "run_bundle": "60/h",
    "run_scores": "120/h",
    "run_quality": "120/h",
    "suite_scores": "60/h",
    "jpeg": "1200/h",
    "board_then": "600/h",
    "api-token": "60/h",
    # All requests to the API, counted per token if one is sent.
    "api": "300/m",
    # Pages that are not in the cache yet.
    "page": "1200/h",
}


def client_address(request: HttpRequest) -> str | None:
    """Return the visitor's address.

    Behind N trusted proxies it is the N-th from the end of X-Forwarded-For.
    """
    hops = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",")]
    proxies = settings.TRUSTED_PROXIES
    forwarded = hops[-proxies] if proxies and len(hops) >= proxies else ""
    for address in (forwarded, request.META.get("REMOTE_ADDR") or ""):
        try:
            return str(ipaddress.ip_address(address))
        except ValueError:
            continue  # empty, a unix socket, or an unknown format of a proxy
    return None


def network_of(address: str) -> str:
    """Return the rate-limit key of an address: the IPv4 host or the IPv6 /64."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False).network_address)


def client_network(request: HttpRequest) -> str | None:
    address = client_address(request)
    return address and network_of(address)


def seconds_to_wait(request: HttpRequest, limit: str, sender: str = "") -> int:
    """Count a request towards a rate limit, and return the seconds to wait; 0 if none.

    Requests are counted per network, or per `sender` if given. These limits only reduce load; the
    daily quotas in the database are strict.
    """
    usage = get_usage(
        request,
        group=limit,
        key=lambda _group, r: sender or client_network(r) or "unknown",
        rate=LIMITS[limit],
        increment=True,
    )
    return max(1, usage["time_left"]) if usage and usage["should_limit"] else 0


def limited(request: HttpRequest, limit: str) -> HttpResponse | None:
    """Return a 429 page if the visitor exceeds this rate limit, else None."""
    seconds = seconds_to_wait(request, limit)
    if not seconds:
        return None
    response = render(
        request, "leaderboard/too_many.html", {"minutes": -(-seconds // 60)}, status=429
    )
    response["Retry-After"] = str(seconds)
    return response
