"""Stored pictures, served so that nothing a stranger sent can act in a browser.

A picture is served while something that the visitor may see shows it: one query. What a run
that is withdrawn, hidden or not published answered is gone for everybody but staff, and caches
ask again after a few minutes.
"""

from __future__ import annotations

from io import BytesIO
from typing import TypeVar

from django.contrib.auth.models import AnonymousUser
from django.core.files.storage import default_storage
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from evaluation.images import ImageError
from leaderboard.models import StoredImage, visible_pictures
from leaderboard.models.pictures import decoding

Response = TypeVar("Response", bound=HttpResponseBase)
SHARED = "public, max-age=300, must-revalidate"
OWN = "private, no-cache"
LOST = "This picture is lost: it is no longer in storage."
LOST_IMAGE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 160">
<rect width="160" height="160" fill="#ddd"/>
<text x="80" y="84" font-family="sans-serif" font-size="16" text-anchor="middle">image lost</text>
</svg>"""


@require_safe
def picture(request: HttpRequest, form: str, sha256: str) -> HttpResponseBase:
    """A thumbnail or a re-encoded copy to show, or the original bytes as a download."""
    stored = visible_pictures(AnonymousUser()).filter(pk=sha256).first()
    keep = SHARED
    if stored is None:  # only now: to ask who somebody is takes a query of its own
        keep = OWN
        stored = get_object_or_404(visible_pictures(request.user), pk=sha256)
    if request.headers.get("If-None-Match") == f'"{form}-{sha256}"':
        return as_picture(FileResponse(status=304), form, sha256, keep)
    try:
        response = content(stored, form)
    except FileNotFoundError:
        if form == "original":
            raise Http404(LOST) from None
        # Browsers show what comes with a 404 where a picture should be.
        lost = HttpResponse(LOST_IMAGE, content_type="image/svg+xml", status=404)
        return as_picture(lost, form, sha256, "no-store")
    except ImageError:
        raise Http404("This picture cannot be decoded.") from None
    return as_picture(response, form, sha256, keep)


def content(stored: StoredImage, form: str) -> FileResponse:
    """The picture in this form; FileNotFoundError where its bytes are gone."""
    if form == "original":
        return FileResponse(
            BytesIO(stored.data()),
            as_attachment=True,
            filename=stored.name.rsplit("/", 1)[-1],
            content_type=stored.mime,
        )
    name = stored.copy_name if form == "copy" else stored.thumbnail_name
    try:
        file = default_storage.open(name)
    except FileNotFoundError:
        # The worker has not come to it yet. Large ones wait: only it has the memory.
        if not stored.may_be_decoded_here:
            raise Http404("A worker is about to make this copy.") from None
        with decoding:
            if form == "copy":
                stored.write_copy()
            else:
                stored.write_thumbnail()
        file = default_storage.open(name)
    return FileResponse(file, content_type="image/webp")


def as_picture(response: Response, form: str, sha256: str, keep: str = SHARED) -> Response:
    """The response as something to keep for a while and only to look at."""
    response["Cache-Control"] = keep
    response["ETag"] = f'"{form}-{sha256}"'
    # Even opened on its own, a picture runs nothing.
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cross-Origin-Resource-Policy"] = "same-site"
    return response
