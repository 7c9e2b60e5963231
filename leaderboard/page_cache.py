"""A cache of whole pages, each valid until its content changes.

A view marked with `cached_page` looks the same to all visitors. It changes only when its stamp, a
text such as the date of the newest results, changes.
The middleware `PageCache` runs before sessions and logs. A cached page costs one query, for the
stamp, and no rendering. A visitor with a pending message gets an uncached page.

The rate of pages rendered for one network is limited, because anyone can invent searches,
parameters and cookies for which no page is cached.
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

CACHE_SECONDS = 6 * 3600

View = Callable[..., HttpResponse]
#: Content and headers of a cached page, ready to send.
Entry: TypeAlias = tuple[bytes, dict[str, str]]


@dataclass(frozen=True)
class CacheOptions:
    """Stamp and query parameters that identify a cached page."""

    stamp: Callable[[], str]
    parameters: Sequence[str]


def cached_page(stamp: Callable[[], str], parameters: Sequence[str] = ()) -> Callable[[View], View]:
    """Mark a view whose page may be cached, unless the response is `no-store`."""

    def mark(view: View) -> View:
        @wraps(view)
        def limited_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            return limited(request, "page") or view(request, *args, **kwargs)

        limited_view.cache_options = CacheOptions(stamp, parameters)  # type: ignore[attr-defined]
        return limited_view

    return mark


def uncached(response: HttpResponse) -> HttpResponse:
    """Keep a response out of the cache, for URLs whose number is unbounded."""
    response["Cache-Control"] = "no-store"
    return response


class PageCache:
    """Middleware that serves cached pages and caches new ones."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        options = None if settings.DEBUG or _is_personal(request) else _options(request.path_info)
        if options is None:
            return self.get_response(request)
        request.get_host()  # raises for a foreign host, even if the page is cached
        key = _key(request, options)
        gzipped = "gzip" in request.headers.get("Accept-Encoding", "")
        entry: Entry | None = cache.get(f"{key}:{gzipped}")
        if entry is None:
            response = self.get_response(request)
            if response.status_code != 200 or "no-store" in response.get("Cache-Control", ""):
                return response
            both = {encoding: _entry(response, encoding) for encoding in (True, False)}
            cache.set_many(
                {f"{key}:{encoding}": page for encoding, page in both.items()}, CACHE_SECONDS
            )
            entry = both[gzipped]
        content, headers = entry
        return HttpResponse(content, headers=headers)


def _is_personal(request: HttpRequest) -> bool:
    """Return True if the request writes, has a session, or may have a pending message."""
    cookies = request.COOKIES
    return (
        request.method not in ("GET", "HEAD")
        or "messages" in cookies
        or settings.SESSION_COOKIE_NAME in cookies
    )


@lru_cache(maxsize=2_000)
def _options(path: str) -> CacheOptions | None:
    """Return the caching options of the view that answers this path."""
    try:
        return getattr(resolve(path).func, "cache_options", None)
    except Resolver404:
        return None


def _key(request: HttpRequest, options: CacheOptions) -> str:
    # Views read only the last value of a repeated parameter, so the key contains only that value.
    values = [request.GET.get(name) for name in options.parameters] if request.GET else []
    # Parameters that the view does not read matter for one header only, which is sent to search
    # engines if the URL has any parameter. The host is left out: pages link to the site by its
    # configured name, and visitors can invent host names.
    parts = (__version__, options.stamp(), request.path, bool(request.GET), values)
    return f"page:{sha256(repr(parts).encode('utf-8', 'replace')).hexdigest()}"


def _entry(response: HttpResponse, gzipped: bool) -> Entry:
    patch_vary_headers(response, ("Accept-Encoding",))
    content, headers = response.content, dict(response.items())
    # A weak tag, because both encodings share it.
    headers["ETag"] = f'W/"{sha256(content).hexdigest()[:32]}"'
    # Browsers revalidate on every visit and mostly get a 304.
    headers["Cache-Control"] = "public, no-cache"
    if gzipped and headers["Content-Type"].startswith(("text/", "application/json")):
        content, headers["Content-Encoding"] = gzip.compress(content, mtime=0), "gzip"
    headers["Content-Length"] = str(len(content))
    return content, headers
