"""Middleware that limits requests, and that adapts django-rq's pages to our CSP."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse

#: Pages of django-rq. The CSP blocks their inline styles and script, but the pages work without
#: these.
QUEUE_PAGES = ("/admin/queues/", "/admin/django_rq/")
INLINE = re.compile(
    rb"<style>.*?</style>|<script type=\"text/javascript\">.*?</script>| style=\"[^\"]*\"",
    re.DOTALL,
)
WITHOUT_BODY = ("GET", "HEAD", "OPTIONS", "TRACE")

View = Callable[[HttpRequest], HttpResponseBase]


class RequestLimits:
    """Middleware that rejects NUL bytes, and bodies that are too long or of unknown length.

    PostgreSQL rejects NUL bytes with an error, and no valid request contains one.
    """

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response
        # A long body occupies a thread while it arrives. This keeps the other threads free.
        self._long_bodies = threading.BoundedSemaphore(settings.LONG_BODIES_AT_ONCE)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if _has_zero_byte(request):
            return _refusal(request, "The address contains a zero byte.", 404)
        length = _length(request)
        if length is None:
            return _refusal(
                request, "The request must state the length of its body (Content-Length).", 411
            )
        limit = _limit(request)
        if length > limit:
            why = f"The body has {length:,} bytes; the limit is {limit:,}."
            return _refusal(request, why, 413)
        if length <= settings.BODY_LIMIT:
            return self.get_response(request)
        if not self._long_bodies.acquire(blocking=False):
            response = _refusal(
                request,
                "Other visitors are sending large files. Please try again in a minute.",
                503,
            )
            response["Retry-After"] = "60"
            return response
        try:
            return self.get_response(request)
        finally:
            self._long_bodies.release()


class WithoutInlineBlocks:
    """Middleware that removes inline styles and scripts from the queue pages."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        html = response.get("Content-Type", "").startswith("text/html")
        if html and request.path.startswith(QUEUE_PAGES) and not response.streaming:
            response.content = INLINE.sub(b"", response.content)
            response["Content-Length"] = str(len(response.content))
        return response


def _has_zero_byte(request: HttpRequest) -> bool:
    query = request.META.get("QUERY_STRING", "")
    return (
        "\0" in request.path_info
        or ("%" in query and b"\0" in unquote_to_bytes(query))
        or any("\0" in value for value in request.COOKIES.values())
    )


def _length(request: HttpRequest) -> int | None:
    """Return the length of the body, or None if it is not stated."""
    if request.META.get("HTTP_TRANSFER_ENCODING"):
        return None
    stated = request.META.get("CONTENT_LENGTH") or "0"
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 16 else None


def _limit(request: HttpRequest) -> int:
    if request.method in WITHOUT_BODY:
        return 0
    limits = settings.LONG_BODY_LIMITS.items()
    return next(
        (limit for start, limit in limits if request.path_info.startswith(start)),
        settings.BODY_LIMIT,
    )


def _refusal(request: HttpRequest, why: str, status: int) -> HttpResponse:
    if request.path_info.startswith("/api/"):
        return JsonResponse({"detail": why}, status=status)
    return HttpResponse(f"{why}\n", status=status, content_type="text/plain; charset=utf-8")
