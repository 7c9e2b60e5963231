"""A cache of whole pages, each valid until its content changes.

A view marked with `keep_page` is the same for all visitors and changes only with its stamp.
`KeptPages` runs before sessions, logs and the rest, and answers such pages with one query (is
the stamp the same?) and no rendering, compressed if the visitor accepts it. A visitor with a
pending message gets an uncached page.

The number of pages rendered for one network is limited: invalid addresses, searches and cookies
are unbounded, and each would cost a whole page.
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
    """Options of a cached page: it changes only with `stamp()` and its parameters."""

    stamp: Callable[[], str]
    parameters: Sequence[str]


def keep_page(stamp: Callable[[], str], parameters: Sequence[str] = ()) -> Callable[[View], View]:
    """Mark a view whose page may be cached, unless the response is `no-store`."""

    def mark(view: View) -> View:
        @wraps(view)
        def made(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            return limited(request, "page") or view(request, *args, **kwargs)

        made.keep = Keep(stamp, parameters)  # type: ignore[attr-defined]
        return made

    return mark


def not_kept(response: HttpResponse) -> HttpResponse:
    """Exclude a page from the cache: invalid addresses are unbounded."""
    response["Cache-Control"] = "no-store"
    return response


class KeptPages:
    """Middleware that answers from cached pages, and caches new ones."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        keep = None if settings.DEBUG or _is_personal(request) else _keep(request.path_info)
        if keep is None:
            return self.get_response(request)
        request.get_host()  # raises for a foreign host, also if the page is cached
        key = _key(request, keep)
        small = "gzip" in request.headers.get("Accept-Encoding", "")
        entry: Kept | None = cache.get(f"{key}:{small}")
        if entry is None:
            response = self.get_response(request)
            if response.status_code != 200 or "no-store" in response.get("Cache-Control", ""):
                return response
            both = {way: _packed(response, way) for way in (True, False)}
            cache.set_many({f"{key}:{way}": page for way, page in both.items()}, KEPT_FOR)
            entry = both[small]
        content, headers = entry
        return HttpResponse(content, headers=headers)


def _is_personal(request: HttpRequest) -> bool:
    """Return True if the request is not a plain read, or a message may be pending."""
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
    # The last value of each, as in views: repeating a parameter makes no new page.
    values = [request.GET.get(name) for name in keep.parameters] if request.GET else []
    # With unknown parameters the page is the same, but not for search engines. Without the host:
    # pages link to the site by its own name, and visitors can invent host names.
    parts = (__version__, keep.stamp(), request.path, bool(request.GET), values)
    return f"page:{sha256(repr(parts).encode('utf-8', 'replace')).hexdigest()}"


def _packed(response: HttpResponse, small: bool) -> Kept:
    patch_vary_headers(response, ("Accept-Encoding",))
    content, headers = response.content, dict(response.items())
    # Weak: the same page in either encoding.
    headers["ETag"] = f'W/"{sha256(content).hexdigest()[:32]}"'
    # Browsers revalidate each time, and mostly get 304.
    headers["Cache-Control"] = "public, no-cache"
    if small and headers["Content-Type"].startswith(("text/", "application/json")):
        content, headers["Content-Encoding"] = gzip.compress(content, mtime=0), "gzip"
    headers["Content-Length"] = str(len(content))
    return content, headers
