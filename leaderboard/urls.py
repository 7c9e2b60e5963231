"""The site's addresses."""

from django.urls import path, re_path

from leaderboard.views import board, categories, health, pictures

urlpatterns = [
    path("", board.index, name="board"),
    path("categories/", categories.index, name="categories"),
    re_path(
        r"^pictures/(?P<form>thumbnail|copy|original)/(?P<sha256>[0-9a-f]{64})$",
        pictures.picture,
        name="picture",
    ),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
]
