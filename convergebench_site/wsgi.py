"""The WSGI application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from evaluation.metrics.batches import return_freed_memory
from evaluation.net.large_answers import limit_malloc_arenas

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "convergebench_site.settings")
application = get_wsgi_application()
# Import all views before processes fork, so that they start fast and share the memory.
get_resolver().url_patterns  # noqa: B018
# Return the memory of large uploads and images to the system. Forked processes inherit this.
limit_malloc_arenas()
return_freed_memory()
