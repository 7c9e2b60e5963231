"""Bring your own chain: drop pictures, get curves, strip and half-life. No account, kept a day."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from leaderboard import tries, wording
from leaderboard.board import METRICS
from leaderboard.charts import Chart, Curve, retention_curves, retention_table
from leaderboard.forms import plain_text
from leaderboard.models import TriedChain
from leaderboard.views.visitors import client_address, limited


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """The form; a good upload leads to its own page at once."""
    if request.method != "POST":
        return render(request, "leaderboard/try.html", {"limits": tries})
    if too_many := limited(request, "try"):
        return too_many
    address = client_address(request)
    if full := tries.over_quota(address):
        return _refused(request, full, status=429)
    try:
        chain = tries.keep(
            _uploads(request),
            name=plain_text(request.POST.get("name", ""))[:80],
            remote_address=address,
        )
    except tries.Unusable as error:
        return _refused(request, str(error), status=422)
    return redirect(chain)


def _refused(request: HttpRequest, why: str, status: int) -> HttpResponse:
    return render(request, "leaderboard/try.html", {"error": why, "limits": tries}, status=status)


def _uploads(request: HttpRequest) -> list[tries.Upload]:
    files: list[tries.Upload] = []
    total = unpacked = 0
    for upload in [*request.FILES.getlist("source"), *request.FILES.getlist("returns")]:
        total += upload.size or 0
        if total > tries.MAX_TOTAL_BYTES:
            raise tries.Unusable(f"More than {tries.MAX_TOTAL_BYTES // 2**20} MB in all.")
        data = upload.read()
        if data[:4] == b"PK\x03\x04":
            files += tries.unpack(
                upload.name or "the zip", data, room=tries.MAX_TOTAL_BYTES - unpacked
            )
            unpacked = sum(len(file.data) for file in files)
        else:
            files.append(tries.Upload(upload.name or "", data))
    if request.FILES.getlist("source") and request.FILES.getlist("returns"):
        # The field says which is the source, whatever the files are called.
        first, *rest = files
        files = [tries.Upload("I0_source", first.data), *_numbered(rest)]
    return files


def _numbered(files: list[tries.Upload]) -> list[tries.Upload]:
    if all(tries.NAMED.match(file.name) for file in files):
        return files
    ordered = sorted(files, key=lambda file: tries.natural(file.name))
    return [tries.Upload(f"I{n}_backward", f.data) for n, f in enumerate(ordered, start=1)]


@never_cache
@require_safe
def detail(request: HttpRequest, token: str) -> HttpResponse:
    """What came of the chain, or that it is being scored."""
    chain = get_object_or_404(TriedChain.objects.kept(), token=token)
    strip = list(chain.pictures.select_related("stored"))
    context: dict[str, Any] = {"chain": chain, "strip": strip, "source": strip[0]}
    if chain.state == TriedChain.State.SCORED:
        context |= _shown(chain)
    response = render(request, "leaderboard/tried.html", context)
    response["X-Robots-Tag"] = "noindex"
    response["Referrer-Policy"] = "no-referrer"
    return response


@require_safe
def state(request: HttpRequest, token: str) -> JsonResponse:
    chain = get_object_or_404(TriedChain.objects.kept().only("state"), token=token)
    return JsonResponse({"state": chain.state})


def _shown(chain: TriedChain) -> dict[str, Any]:
    results = chain.results
    trips, metrics = results["trips"], results["metrics"]
    names = [name for name in METRICS if name in metrics]
    curves = [Curve(metrics[n]["label"], [1.0, *metrics[n]["retention"]]) for n in names]
    main = metrics[names[0]] if names else None
    figures = []
    for name in names:
        found = metrics[name]["events"]["0.5"]
        reached = found["time"] if found["kind"] else None
        figures.append((metrics[name]["label"], wording.half_life(reached, trips), found["kind"]))
    rows = [
        {
            "number": number,
            "values": [metrics[name]["shown"][number - 1] for name in names],
            "kept": wording.percent(main["retention"][number - 1]) if main else "",
            "jpeg": main["jpeg"][number - 1] if main else None,
            "seen": results["change_seen"][number - 1],
            "reframed": results["reframed"][number - 1],
        }
        for number in range(1, trips + 1)
    ]
    chart = Chart(
        id="own",
        title=_finding(main, trips) if main else "No metric could be run",
        subtitle="Picture kept after each trip, by every metric. 0 % is a blank card of the source’s mean colour.",
        figure=retention_curves(curves, trips),
        table=retention_table(curves, trips),
    )
    return {
        "chart": chart if curves else None,
        "figures": figures,
        "rows": rows,
        "labels": [metrics[name]["label"] for name in names],
        "dynamics": results["dynamics"],
        "not_run": results["not_run"],
        "main": main,
        "judged": any(seen is not None for seen in results["change_seen"]),
    }


def _finding(main: dict[str, Any], trips: int) -> str:
    kept = wording.percent(max(0.0, main["retention"][-1]))
    return f"{wording.after(trips).capitalize()}, {kept} of the picture is left by {main['label']}"
