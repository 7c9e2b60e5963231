"""Whole pages, kept until something they show changes.

A kept page costs one query (is it still true?) and no rendering, and is kept
compressed too. Pages are the same for everybody; a visitor to whom a message is
due gets a page of their own.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import wraps
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers

from evaluation import __version__

KEPT_FOR = 6 * 3600
#: Headers that belong to the page itself; middleware adds the others each time.
OWN_HEADERS = ("Content-Type", "X-Robots-Tag")

View = Callable[..., HttpResponse]


def keep_page(stamp: Callable[[], str], parameters: Sequence[str] = ()) -> Callable[[View], View]:
    """Keep a view's page while `stamp()` stays the same, for each value of its parameters.

    A page that says `Cache-Control: no-store` is not kept.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if settings.DEBUG or _is_personal(request):
                return view(request, *args, **kwargs)
            key = _key(request, stamp(), parameters)
            kept = cache.get(key)
            if kept is None:
                response = view(request, *args, **kwargs)
                if response.status_code != 200 or "no-store" in response.get("Cache-Control", ""):
                    return response
                kept = _packed(response)
                cache.set(key, kept, KEPT_FOR)
            return _unpacked(kept, request)

        return answer

    return decorate


def _is_personal(request: HttpRequest) -> bool:
    """Whether a message may be waiting for this visitor."""
    return "messages" in request.COOKIES or settings.SESSION_COOKIE_NAME in request.COOKIES


def _key(request: HttpRequest, stamp: str, parameters: Sequence[str]) -> str:
    values = [request.GET.getlist(name) for name in parameters]
    # An address with other parameters shows the same page, but search engines shall skip it.
    parts = (__version__, stamp, request.get_host(), request.path, bool(request.GET), values)
    return f"page:{sha256(repr(parts).encode('utf-8', 'replace')).hexdigest()}"


def _packed(response: HttpResponse) -> dict[str, Any]:
    is_text = response["Content-Type"].startswith("text/")
    return {
        "plain": response.content,
        "gzip": gzip.compress(response.content, mtime=0) if is_text else b"",
        "headers": {name: response[name] for name in OWN_HEADERS if name in response},
        # Weak: the same page in either encoding.
        "etag": f'W/"{sha256(response.content).hexdigest()[:32]}"',
    }


def _unpacked(kept: dict[str, Any], request: HttpRequest) -> HttpResponse:
    small = bool(kept["gzip"]) and "gzip" in request.headers.get("Accept-Encoding", "")
    response = HttpResponse(kept["gzip" if small else "plain"], headers=kept["headers"])
    if small:
        response["Content-Encoding"] = "gzip"
    response["ETag"] = kept["etag"]
    # Browsers ask each time, and mostly hear that nothing changed.
    response["Cache-Control"] = "public, no-cache"
    patch_vary_headers(response, ("Accept-Encoding",))
    return response
