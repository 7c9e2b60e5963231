"""The WSGI application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from evaluation.metrics.batches import return_freed_memory
from evaluation.net.large_answers import limit_malloc_arenas

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convergebench_site.settings")
application = get_wsgi_application()
# All pages are imported before processes fork: a new one answers at once, in shared memory.
get_resolver().url_patterns  # noqa: B018
# Uploads and images of many megabytes; the processes inherit both.
limit_malloc_arenas()
return_freed_memory()
