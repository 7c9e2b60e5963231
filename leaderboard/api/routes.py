"""The API's description, rate limit and routers."""

import math
import threading

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import Throttled
from ninja.throttling import BaseThrottle

from evaluation import __version__
from leaderboard.api import results, submissions
from leaderboard.models import ApiToken
from leaderboard.visitors import seconds_to_wait

DESCRIPTION = """
Every number of the board, with the curves, trips, scores and images behind it, and
submissions by script. The OpenAPI document is at `/api/v1/openapi.json`.

### Reading
Reading needs no account. Lists are paginated (`limit`, `offset`). Responses have an `ETag`: send
it back as `If-None-Match`, and an unchanged response is an empty 304. A half-life of `null` was
not reached within the suite's trips. A metric that was not run is absent, never 0.

### Submitting a model
Scripts can submit models with the same fields, checks, quotas and test as the page
[/submit/](/submit/). Ask us for an API token: it is shown once, sent as a header, and can be
revoked.

    curl -X POST {site}/api/v1/submissions \\
      -H "Authorization: Bearer $CONVERGEBENCH_TOKEN" -H "Content-Type: application/json" \\
      -d '{{"name": "Fine Editor 2", "endpoint_url": "https://api.example.org/v1",
           "contract": "openai-edits", "api_key": "'"$ENDPOINT_KEY"'", "suite": "smoke-v2",
           "idempotency_key": "'"$(uuidgen)"'"}}'

The response contains the submission's own `token`. Keep it as secret as a password: all further
requests need only this token. `GET /submissions/TOKEN` returns the status (ask at most every
10 seconds), and the actions are below that URL. `page` is the submission's page for people. The key
of your endpoint is stored encrypted, sent only to your endpoint, and never returned.

If a request was interrupted, repeat it with the same `idempotency_key`: it returns the first
submission instead of making a second one.

### Limits
300 requests a minute for each token or network address; 20 submissions an hour and {per_day} a
day. Beyond that the status is 429, and `Retry-After` gives the seconds to wait.
"""


class Throttle(BaseThrottle):
    """The rate limit of the whole API, counted per token or network like the site's other limits.

    Ninja's own throttle does not fit: it stores one visitor's state on an object that all threads
    share, it counts single IPv6 addresses, and its cache evicts entries.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def allow_request(self, request: HttpRequest) -> bool:
        sender = getattr(request, "auth", None)
        sender_key = f"token {sender.pk}" if isinstance(sender, ApiToken) else ""
        self._of_thread.seconds = seconds_to_wait(request, "api", sender_key)
        return not self._of_thread.seconds

    def wait(self) -> float:
        return float(self._of_thread.seconds)


api = NinjaAPI(
    title="ConvergeBench",
    version=__version__,
    description=DESCRIPTION.format(
        site=settings.SITE_URL.rstrip("/"), per_day=settings.SUBMISSIONS_PER_DAY
    ),
    urls_namespace="api",
    throttle=[Throttle()],
)
api.add_router("", results.router)
api.add_router("/submissions", submissions.router)


@api.exception_handler(Throttled)
def too_many(request: HttpRequest, error: Throttled) -> HttpResponse:
    """Return a 429 with Retry-After."""
    response = api.create_response(request, {"detail": str(error)}, status=429)
    if error.wait:
        response["Retry-After"] = str(math.ceil(error.wait))
    return response
