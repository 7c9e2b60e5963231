"""Run bundles as downloads."""

from __future__ import annotations

import tempfile

from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from evaluation.bundle.format import BundleError
from leaderboard.exchange import bundles
from leaderboard.models import Run
from leaderboard.visitors import limited

#: Above this, pictures come by the command: a page's worker is not kept busy for minutes.
MOST_PICTURES = 300 * 2**20


@require_safe
def bundle(request: HttpRequest, run_id: int) -> HttpResponseBase:
    """A public run's bundle; `?pictures=1` adds the pictures where they are few."""
    # Each is written anew: the dearest thing that a visitor can ask for.
    if too_many := limited(request, "bundle", "60/h"):
        return too_many
    runs = Run.objects.public().select_related("editing_model", "suite")
    run = get_object_or_404(runs, pk=run_id)
    pictures = request.GET.get("pictures") == "1"
    if pictures and (size := bundles.pictures_size(run)) > MOST_PICTURES:
        return HttpResponse(
            f"The pictures of this run take {size / 2**20:,.0f} MB; up to "
            f"{MOST_PICTURES / 2**20:.0f} MB are sent this way. Whoever keeps this site can "
            f"write the bundle with: manage.py export_bundle {run.pk}\n"
            "Without pictures: leave out ?pictures=1.\n",
            status=413,
            content_type="text/plain; charset=utf-8",
        )
    # Beyond a few MB it is a file on disk, gone when it was sent.
    file = tempfile.SpooledTemporaryFile(max_size=8 * 2**20)  # noqa: SIM115
    try:
        bundles.write(run, file, pictures=pictures)
    except BundleError as error:
        file.close()
        raise Http404(str(error)) from None
    file.seek(0)
    return FileResponse(
        file,
        as_attachment=True,
        filename=f"convergebench-run-{run.pk}{'-pictures' if pictures else ''}.zip",
        content_type="application/zip",
    )
