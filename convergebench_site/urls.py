"""URLs of the site, the admin and the API."""

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from leaderboard.api.routes import api
from leaderboard.views import health

admin.autodiscover()
admin.site.site_header = "ConvergeBench"
admin.site.site_title = "ConvergeBench"
admin.site.index_title = "Curation and runs"

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/queues/", include("django_rq.urls")),
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("", include("leaderboard.urls")),
]

if "django_prometheus" in settings.INSTALLED_APPS:
    urlpatterns.append(path("metrics", health.metrics))

handler404 = "leaderboard.views.site.not_found"
handler500 = "leaderboard.views.site.server_error"
