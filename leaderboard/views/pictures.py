"""Stored pictures, served so that nothing a stranger sent can act in a browser.

Whoever knows a picture's SHA-256 may have it, also of a run that is not published or a
chain that somebody brought: the hash cannot be guessed, only pages that may be seen name
it, and who can compute it has the picture already. So pictures need no question to the
database about who asks, and every cache may keep them.
"""

from __future__ import annotations

from typing import TypeVar

from django.core.files.storage import default_storage
from django.http import FileResponse, Http404, HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from leaderboard.models import StoredImage

Response = TypeVar("Response", bound=HttpResponseBase)
FOREVER = "public, max-age=31536000, immutable"


@require_safe
def picture(request: HttpRequest, form: str, sha256: str) -> HttpResponseBase:
    """A thumbnail or a re-encoded copy to show, or the original bytes as a download."""
    if request.headers.get("If-None-Match") == f'"{form}-{sha256}"':
        return as_picture(FileResponse(status=304), form, sha256)
    stored = get_object_or_404(StoredImage, pk=sha256)
    name = {
        "thumbnail": stored.thumbnail_name,
        "copy": stored.copy_name,
        "original": stored.name,
    }[form]
    try:
        if form == "copy":
            stored.write_copy()
        try:
            file = default_storage.open(name)
        except FileNotFoundError:
            if form != "thumbnail":
                raise
            stored.write_thumbnail()  # the worker has not come to score it yet
            file = default_storage.open(name)
    except FileNotFoundError:
        raise Http404("this picture is not in storage") from None
    if form == "original":
        response = FileResponse(
            file, as_attachment=True, filename=name.rsplit("/", 1)[-1], content_type=stored.mime
        )
    else:
        response = FileResponse(file, content_type="image/webp")
    return as_picture(response, form, sha256)


def as_picture(response: Response, form: str, sha256: str) -> Response:
    """The response as something to keep for ever and only to look at."""
    response["Cache-Control"] = FOREVER
    response["ETag"] = f'"{form}-{sha256}"'
    # Even opened on its own, a picture runs nothing.
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cross-Origin-Resource-Policy"] = "same-site"
    return response
