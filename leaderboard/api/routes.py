"""The API as a whole: its description, limits and parts."""

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
submissions by machine. The same under `/api/v1/openapi.json`.

### Reading
Needs no account. Lists come in pages (`limit`, `offset`). Answers carry an `ETag`: send it
back as `If-None-Match` and an unchanged answer costs nothing. A half-life of `null` was not
reached within the suite's trips; a metric that was not run is absent, never 0.

### Submitting a model
The same form, checks, quotas and test as the page [/submit/](/submit/), for scripts. Ask us
for an API token: it is shown once, can be revoked, and is sent as a header.

    curl -X POST {site}/api/v1/submissions \\
      -H "Authorization: Bearer $CONVERGEBENCH_TOKEN" -H "Content-Type: application/json" \\
      -d '{{"name": "Fine Editor 2", "endpoint_url": "https://api.example.org/v1",
           "contract": "openai-edits", "api_key": "'"$ENDPOINT_KEY"'", "suite": "smoke-v2",
           "idempotency_key": "'"$(uuidgen)"'"}}'

The answer holds the submission's own `token`. It is all that is needed from then on, so keep it
as you would keep a password: `GET /submissions/TOKEN` tells where it stands (ask every 10
seconds or more), and what can be done about it is below that address. The same submission
has a page for people at `page`. The key of your endpoint is stored encrypted, sent to
your endpoint and nowhere else, and is in no answer.

With the same `idempotency_key` a request that was cut off can be repeated: it is one
submission, and the answer is that of the first.

### Limits
300 requests a minute for each token or network address, 20 submissions an hour and
{per_day} a day; beyond that the answer is 429, and `Retry-After` says when to come back.
"""


class Throttle(BaseThrottle):
    """The rate limit of the whole API, by token or network, in the site's counters.

    Ninja's throttle stores its counts in attributes of one object that all threads share, so that
    visitors count for each other; it counts single IPv6 addresses, and uses the page cache, which
    evicts entries.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def allow_request(self, request: HttpRequest) -> bool:
        sender = getattr(request, "auth", None)
        who = f"token {sender.pk}" if isinstance(sender, ApiToken) else ""
        self._of_thread.seconds = seconds_to_wait(request, "api", who)
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
    answer = api.create_response(request, {"detail": str(error)}, status=429)
    if error.wait:
        answer["Retry-After"] = str(math.ceil(error.wait))
    return answer
