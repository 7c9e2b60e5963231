"""Uploaded chains: curves, strip and half-life of a visitor's images, for a day."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from evaluation.analysis.levels import DEFAULT_LEVEL
from evaluation.content import chain_files
from evaluation.metrics import HEADLINE, METRICS
from evaluation.metrics.picture import LOST
from leaderboard import formatting
from leaderboard.models import UploadedChain
from leaderboard.models.uploads import KEPT
from leaderboard.pages import uploaded_chain
from leaderboard.pages.charts import Curve, retention_chart
from leaderboard.text import plain_text
from leaderboard.views.site import noindex
from leaderboard.visitors import client_address, limited


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """Show the form; redirect an accepted upload to its page."""
    if request.method != "POST":
        return render(request, "leaderboard/upload_chain.html")
    if too_many := limited(request, "upload_chain"):
        return too_many
    address = client_address(request)
    if full := uploaded_chain.take(address):
        return _refused(request, full, status=429)
    try:
        chain = uploaded_chain.keep(
            _uploads(request),
            name=plain_text(request.POST.get("name", ""))[:80],
            remote_address=address,
        )
    except uploaded_chain.Unusable as error:
        return _refused(request, str(error), status=422)
    return redirect(chain)


def _refused(request: HttpRequest, why: str, status: int) -> HttpResponse:
    return render(
        request,
        "leaderboard/upload_chain.html",
        {"error": why},
        status=status,
    )


def _uploads(request: HttpRequest) -> list[uploaded_chain.Upload]:
    files: list[uploaded_chain.Upload] = []
    room = uploaded_chain.MAX_TOTAL_BYTES
    for upload in [*request.FILES.getlist("source"), *request.FILES.getlist("returns")]:
        room -= upload.size or 0
        if room < 0:
            raise uploaded_chain.Unusable(
                f"More than {uploaded_chain.MAX_TOTAL_BYTES // 2**20} MB in all."
            )
        is_zip = upload.read(4) == b"PK\x03\x04"
        upload.seek(0)
        if is_zip:
            unpacked = uploaded_chain.unpack(upload.name or "the zip", upload, room=room)
            room -= sum(file.size for file in unpacked)
            files += unpacked
        else:
            files.append(uploaded_chain.Upload(upload.name or "", upload.size or 0, upload.read))
    if request.FILES.getlist("source") and request.FILES.getlist("returns"):
        # The form's field determines the source, whatever the names of the files.
        first, *rest = files
        files = [replace(first, name="I0_source"), *_numbered(rest)]
    return files


def _numbered(files: list[uploaded_chain.Upload]) -> list[uploaded_chain.Upload]:
    if any(chain_files.is_named(file.name) for file in files):
        return files
    ordered = sorted(files, key=lambda file: chain_files.natural(file.name))
    return [replace(file, name=f"I{n}_backward") for n, file in enumerate(ordered, start=1)]


@never_cache
@require_safe
@noindex
def detail(request: HttpRequest, token: str) -> HttpResponse:
    """Show the chain's result, or that it is being scored."""
    chain = get_object_or_404(UploadedChain.objects.kept(), token=token)
    strip = list(chain.pictures.select_related("stored"))
    context: dict[str, Any] = {
        "chain": chain,
        "strip": strip,
        "source": strip[0],
        "deleted_at": chain.created_at + KEPT,
    }
    if chain.state == UploadedChain.State.SCORED:
        context |= _shown(chain)
    response = render(request, "leaderboard/uploaded_chain.html", context)
    response["Referrer-Policy"] = "no-referrer"
    return response


@require_safe
def state(request: HttpRequest, token: str) -> JsonResponse:
    chain = get_object_or_404(UploadedChain.objects.kept().only("state"), token=token)
    return JsonResponse({"state": chain.state})


def _shown(chain: UploadedChain) -> dict[str, Any]:
    results = chain.results
    trips, metrics = results["trips"], results["metrics"]
    names = [name for name in METRICS if name in metrics]
    curves = [Curve(metrics[n]["label"], [1.0, *metrics[n]["retention"]]) for n in names]
    main = metrics[names[0]] if names else None
    figures = []
    for name in names:
        event = metrics[name]["events"][f"{DEFAULT_LEVEL:g}"]
        reached = event["time"] if event["cause"] else None
        figures.append(
            (metrics[name]["label"], formatting.half_life(reached, trips), event["cause"])
        )
    rows = [
        {
            "number": number,
            "values": [metrics[name]["shown"][number - 1] for name in names],
            "kept": formatting.percent(max(0.0, main["retention"][number - 1])) if main else "",
            "jpeg": main["jpeg"][number - 1] if main else None,
            "seen": results["change_seen"][number - 1],
            "reframed": results["reframed"][number - 1],
        }
        for number in range(1, trips + 1)
    ]
    chart = retention_chart(
        curves,
        trips,
        id="own",
        title=finding(metrics, names[0], trips) if main else "No metric could be run",
        subtitle="Picture kept after each trip, by every metric. 0 % is a blank card of the source’s mean colour.",
    )
    return {
        "chart": chart if curves else None,
        "figures": figures,
        "rows": rows,
        "labels": [metrics[name]["label"] for name in names],
        "dynamics": results["dynamics"],
        "not_run": results["not_run"],
        "main": main,
        "one_trip": _one_trip(main) if main and trips == 1 else "",
        "judged": any(seen is not None for seen in results["change_seen"]),
    }


def _one_trip(main: dict[str, Any]) -> str:
    """Return the retention after one trip, and that a half-life needs more."""
    share = formatting.percent(max(0.0, main["retention"][0]))
    return f"{share} is left after one round trip. Upload more trips for a half-life."


def finding(metrics: dict[str, Any], name: str, trips: int) -> str:
    """Return the retention at the end; by the headline, also the worst part."""
    share = formatting.percent(max(0.0, metrics[name]["retention"][-1]))
    left = f"{formatting.after(trips).capitalize()}, {share} of the picture is left"
    if name != HEADLINE:
        return f"{left} by {metrics[name]['label']}"
    parts = [part for part in LOST if part in metrics]
    if not parts or metrics[name]["retention"][-1] >= 1:
        return left
    worst = min(parts, key=lambda part: metrics[part]["retention"][-1])
    return f"{left}: {LOST[worst].most}"
