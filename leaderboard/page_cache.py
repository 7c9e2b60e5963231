"""Whole pages, kept until something they show changes.

A view marked with `keep_page` is the same for everybody and changes only with its
stamp. `KeptPages` stands before sessions, logs and the rest, and answers such
pages with one query (is what was kept still true?) and no rendering, compressed
where the visitor takes it. A visitor to whom a message is due gets a page of
their own.

How many pages are made anew for one network is limited: of addresses with mistakes, of
searches and of cookies there is no end, and each would cost a whole page.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from hashlib import sha256
from typing import Any, TypeAlias

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.utils.cache import patch_vary_headers

from evaluation import __version__
from leaderboard.visitors import limited

KEPT_FOR = 6 * 3600

View = Callable[..., HttpResponse]
#: Content and headers, ready to send.
Kept: TypeAlias = tuple[bytes, dict[str, str]]


@dataclass(frozen=True)
class Keep:
    """While `stamp()` stays the same, so does the page, for each value of its parameters."""

    stamp: Callable[[], str]
    parameters: Sequence[str]


def keep_page(stamp: Callable[[], str], parameters: Sequence[str] = ()) -> Callable[[View], View]:
    """Mark a view whose page may be kept; one that says `no-store` is not."""

    def mark(view: View) -> View:
        @wraps(view)
        def made(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            return limited(request, "page") or view(request, *args, **kwargs)

        made.keep = Keep(stamp, parameters)  # type: ignore[attr-defined]
        return made

    return mark


def not_kept(response: HttpResponse) -> HttpResponse:
    """For addresses with mistakes, of which there is no end: the page is made, but not kept."""
    response["Cache-Control"] = "no-store"
    return response


class KeptPages:
    """Middleware: answers from kept pages, and keeps new ones."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        keep = None if settings.DEBUG or _is_personal(request) else _keep(request.path_info)
        if keep is None:
            return self.get_response(request)
        request.get_host()  # raises for a host that is not ours, also where the page is kept
        key = _key(request, keep)
        small = "gzip" in request.headers.get("Accept-Encoding", "")
        kept: Kept | None = cache.get(f"{key}:{small}")
        if kept is None:
            response = self.get_response(request)
            if response.status_code != 200 or "no-store" in response.get("Cache-Control", ""):
                return response
            both = {way: _packed(response, way) for way in (True, False)}
            cache.set_many({f"{key}:{way}": page for way, page in both.items()}, KEPT_FOR)
            kept = both[small]
        content, headers = kept
        return HttpResponse(content, headers=headers)


def _is_personal(request: HttpRequest) -> bool:
    """Tell if this is more than reading, or a message may wait for this visitor."""
    cookies = request.COOKIES
    return (
        request.method not in ("GET", "HEAD")
        or "messages" in cookies
        or settings.SESSION_COOKIE_NAME in cookies
    )


@lru_cache(maxsize=2_000)
def _keep(path: str) -> Keep | None:
    """Return the caching options of the view that answers this path."""
    try:
        return getattr(resolve(path).func, "keep", None)
    except Resolver404:
        return None


def _key(request: HttpRequest, keep: Keep) -> str:
    # The last value of each, as views read it: repeating a parameter makes no new page.
    values = [request.GET.get(name) for name in keep.parameters] if request.GET else []
    # An address with other parameters shows the same page, but search engines shall skip it.
    # Not the host: pages link to the site by its own name, and anybody can make up new ones.
    parts = (__version__, keep.stamp(), request.path, bool(request.GET), values)
    return f"page:{sha256(repr(parts).encode('utf-8', 'replace')).hexdigest()}"


def _packed(response: HttpResponse, small: bool) -> Kept:
    patch_vary_headers(response, ("Accept-Encoding",))
    content, headers = response.content, dict(response.items())
    # Weak: the same page in either encoding.
    headers["ETag"] = f'W/"{sha256(content).hexdigest()[:32]}"'
    # Browsers ask each time, and mostly hear that nothing changed.
    headers["Cache-Control"] = "public, no-cache"
    if small and headers["Content-Type"].startswith(("text/", "application/json")):
        content, headers["Content-Encoding"] = gzip.compress(content, mtime=0), "gzip"
    headers["Content-Length"] = str(len(content))
    return content, headers
