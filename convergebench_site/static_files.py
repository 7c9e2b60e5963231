"""Stylesheets and scripts under names that their content decides."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):
    """Also what a script imports is asked for by its hashed name."""

    support_js_module_import_aggregation = True
