"""Whole pages, kept until something they show changes.

A view marked with `keep_page` is the same for everybody and changes only with its
stamp. `KeptPages` stands before sessions, logs and the rest, and answers such
pages with one query (is what was kept still true?) and no rendering, compressed
where the visitor takes it. A visitor to whom a message is due gets a page of
their own.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.utils.cache import patch_vary_headers

from evaluation import __version__

KEPT_FOR = 6 * 3600

View = Callable[..., HttpResponse]


@dataclass(frozen=True)
class Keep:
    """While `stamp()` stays the same, so does the page, for each value of its parameters."""

    stamp: Callable[[], str]
    parameters: Sequence[str]


def keep_page(stamp: Callable[[], str], parameters: Sequence[str] = ()) -> Callable[[View], View]:
    """Mark a view whose page may be kept; one that says `no-store` is not."""

    def mark(view: View) -> View:
        view.keep = Keep(stamp, parameters)  # type: ignore[attr-defined]
        return view

    return mark


class KeptPages:
    """Middleware: answers from kept pages, and keeps new ones."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        keep = None if settings.DEBUG or _is_personal(request) else _keep(request)
        if keep is None:
            return self.get_response(request)
        key = _key(request, keep)
        kept = cache.get(key)
        if kept is None:
            response = self.get_response(request)
            if response.status_code != 200 or "no-store" in response.get("Cache-Control", ""):
                return response
            kept = _packed(response)
            cache.set(key, kept, KEPT_FOR)
        return _unpacked(kept, request)


def _is_personal(request: HttpRequest) -> bool:
    """Whether this is more than reading, or a message may be waiting for this visitor."""
    cookies = request.COOKIES
    return (
        request.method not in ("GET", "HEAD")
        or "messages" in cookies
        or settings.SESSION_COOKIE_NAME in cookies
    )


def _keep(request: HttpRequest) -> Keep | None:
    try:
        return getattr(resolve(request.path_info).func, "keep", None)
    except Resolver404:
        return None


def _key(request: HttpRequest, keep: Keep) -> str:
    values = [request.GET.getlist(name) for name in keep.parameters]
    # An address with other parameters shows the same page, but search engines shall skip it.
    parts = (__version__, keep.stamp(), request.get_host(), request.path, bool(request.GET), values)
    return f"page:{sha256(repr(parts).encode('utf-8', 'replace')).hexdigest()}"


def _packed(response: HttpResponse) -> dict[str, Any]:
    is_text = response["Content-Type"].startswith("text/")
    return {
        "plain": response.content,
        "gzip": gzip.compress(response.content, mtime=0) if is_text else b"",
        "headers": dict(response.items())
        # Browsers ask each time, and mostly hear that nothing changed. The tag is weak:
        # it is the same page in either encoding.
        | {
            "Cache-Control": "public, no-cache",
            "ETag": f'W/"{sha256(response.content).hexdigest()[:32]}"',
        },
    }


def _unpacked(kept: dict[str, Any], request: HttpRequest) -> HttpResponse:
    small = bool(kept["gzip"]) and "gzip" in request.headers.get("Accept-Encoding", "")
    content = kept["gzip" if small else "plain"]
    response = HttpResponse(content, headers=kept["headers"] | {"Content-Length": len(content)})
    if small:
        response["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ("Accept-Encoding",))
    return response
