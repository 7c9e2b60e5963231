"""The WSGI application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from evaluation.metrics.batches import return_freed_memory
from evaluation.net.large_answers import give_memory_back

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convergebench_site.settings")
application = get_wsgi_application()
# All pages are imported before processes fork: a new one answers at once, in shared memory.
get_resolver().url_patterns  # noqa: B018
# Uploads and images of many megabytes; the processes inherit both.
give_memory_back()
return_freed_memory()
