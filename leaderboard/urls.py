"""The site's addresses."""

from django.urls import path, re_path

from leaderboard.views import (
    board,
    bundles,
    cases,
    categories,
    compare,
    crawlers,
    exports,
    health,
    models,
    pictures,
    runs,
    submissions,
    suites,
    texts,
    uploaded_chain,
)

urlpatterns = [
    path("", board.index, name="board"),
    path("board.png", crawlers.board_picture, name="board_picture"),
    path("favicon.ico", crawlers.favicon),
    path("robots.txt", crawlers.robots, name="robots"),
    path("sitemap.xml", crawlers.sitemap, name="sitemap"),
    path("compare/", compare.index, name="compare"),
    path("categories/", categories.index, name="categories"),
    path("models/<slug:slug>/", models.detail, name="model"),
    path("cases/<int:case_id>/", cases.across_models, name="case"),
    path("runs/<int:run_id>/", runs.detail, name="run"),
    path("runs/<int:run_id>/bundle.zip", bundles.bundle, name="run_bundle"),
    path("runs/<int:run_id>/progress.json", runs.progress, name="run_progress"),
    path("runs/<int:run_id>/cases/<int:case_id>/", cases.strip, name="run_case"),
    path("suites/", suites.index, name="suites"),
    path("suites/<slug:slug>/", suites.latest, name="suite_latest"),
    path("suites/<slug:slug>/<int:version>/", suites.detail, name="suite"),
    path("suites/<slug:slug>/<int:version>/suite.json", suites.file, name="suite_file"),
    path("submit/", submissions.submit, name="submit"),
    path("submit/request.txt", submissions.preview, name="submit_preview"),
    path("submissions/<str:token>/", submissions.status, name="submission"),
    path("submissions/<str:token>/state.json", submissions.status_json, name="submission_state"),
    path("submissions/<str:token>/act/", submissions.act, name="submission_act"),
    path("try/", uploaded_chain.index, name="try"),
    path("try/<str:token>/", uploaded_chain.detail, name="tried"),
    path("try/<str:token>/state.json", uploaded_chain.state, name="tried_state"),
    path("cite.bib", exports.cite, name="cite"),
    path("badges/<slug:slug>.svg", exports.badge, name="badge"),
    re_path(
        r"^runs/(?P<run_id>\d{1,9})/scores\.(?P<form>csv|json)$",
        exports.run_scores,
        name="run_scores",
    ),
    path(
        "suites/<slug:slug>/<int:version>/scores.parquet", exports.suite_scores, name="suite_scores"
    ),
    path("methodology/", texts.methodology, name="methodology"),
    path("about/", texts.about, name="about"),
    path("changelog/", texts.changelog, name="changelog"),
    re_path(
        r"^pictures/(?P<form>thumbnail|copy|original)/(?P<sha256>[0-9a-f]{64})$",
        pictures.picture,
        name="picture",
    ),
    re_path(
        r"^pictures/jpeg/(?P<sha256>[0-9a-f]{64})/(?P<quality>[1-9][0-9]?)$",
        cases.jpeg,
        name="jpeg",
    ),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
]
