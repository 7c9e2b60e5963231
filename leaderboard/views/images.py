"""Views that serve stored images, so that untrusted content cannot run in a browser.

An image is served only if a page that the visitor may see shows it; the check takes one query.
Images of withdrawn, hidden or unpublished runs are served to staff only. Caches must ask this
site again after five minutes, so that a withdrawn image disappears from them.
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
from leaderboard.models import StoredImage, visible_images
from leaderboard.models.images import AlteredImage, decoding

Response = TypeVar("Response", bound=HttpResponseBase)
#: Cache-Control of images for everyone, and of images for one visitor.
SHARED = "public, max-age=300, must-revalidate"
PRIVATE = "private, no-cache"
MISSING = "This image is missing from storage."
ALTERED = "The stored bytes of this image were altered.\n"
MISSING_IMAGE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 160">
<rect width="160" height="160" fill="#ddd"/>
<text x="80" y="84" font-family="sans-serif" font-size="16" text-anchor="middle">image missing</text>
</svg>"""


@require_safe
def image(request: HttpRequest, variant: str, sha256: str) -> HttpResponseBase:
    """Serve a thumbnail, a re-encoded copy, or the original bytes as a download."""
    stored = visible_images(AnonymousUser()).filter(pk=sha256).first()
    cache_control = SHARED
    if stored is None:  # reading the user takes another query
        cache_control = PRIVATE
        stored = get_object_or_404(visible_images(request.user), pk=sha256)
    if request.headers.get("If-None-Match") == f'"{variant}-{sha256}"':
        return with_image_headers(FileResponse(status=304), variant, sha256, cache_control)
    try:
        response = content(stored, variant)
    except AlteredImage:
        return HttpResponse(ALTERED, content_type="text/plain; charset=utf-8", status=410)
    except FileNotFoundError:
        if variant == "original":
            raise Http404(MISSING) from None
        # Browsers show the body of a 404 in place of the image.
        placeholder = HttpResponse(MISSING_IMAGE, content_type="image/svg+xml", status=404)
        return with_image_headers(placeholder, variant, sha256, "no-store")
    except ImageError:
        raise Http404("This image cannot be decoded.") from None
    return with_image_headers(response, variant, sha256, cache_control)


def content(stored: StoredImage, variant: str) -> FileResponse:
    """Return the image in this variant. Raises FileNotFoundError if its bytes are missing."""
    if variant == "original":
        return FileResponse(
            BytesIO(stored.data()),
            as_attachment=True,
            filename=stored.name.rsplit("/", 1)[-1],
            content_type=stored.mime,
        )
    name = stored.copy_name if variant == "copy" else stored.thumbnail_name
    try:
        file = default_storage.open(name)
    except FileNotFoundError:
        # A worker has not made this copy yet. Only workers have the memory for large images.
        if not stored.may_be_decoded_here:
            raise Http404("A worker is making this copy. Please try again in a minute.") from None
        with decoding:
            if variant == "copy":
                stored.write_copy()
            else:
                stored.write_thumbnail()
        file = default_storage.open(name)
    return FileResponse(file, content_type="image/webp")


def with_image_headers(
    response: Response, variant: str, sha256: str, cache_control: str = SHARED
) -> Response:
    """Add headers that allow caching and forbid scripts."""
    response["Cache-Control"] = cache_control
    response["ETag"] = f'"{variant}-{sha256}"'
    # An image opened on its own must not run scripts.
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cross-Origin-Resource-Policy"] = "same-site"
    return response
