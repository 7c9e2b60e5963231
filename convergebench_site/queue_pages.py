"""django-rq's pages under our content policy.

Its templates carry a few inline styles, and a script for an admin that Django no
longer has. The policy blocks them; taken out, nothing is missing and no browser
complains.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

PATHS = ("/admin/queues/", "/admin/django_rq/")
INLINE = re.compile(
    rb"<style>.*?</style>|<script type=\"text/javascript\">.*?</script>| style=\"[^\"]*\"",
    re.DOTALL,
)


class WithoutInlineBlocks:
    """Middleware: takes inline styles and scripts out of the queue pages."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        html = response.get("Content-Type", "").startswith("text/html")
        if html and request.path.startswith(PATHS) and not response.streaming:
            response.content = INLINE.sub(b"", response.content)
        return response
