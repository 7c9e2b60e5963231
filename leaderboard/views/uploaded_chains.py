"""Pages to upload a chain of images and see its curves and half-life for a day."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any

import structlog
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from convergebench_site.storage import STORAGE_ERRORS
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.content import archives, chain_files
from evaluation.content.archives import ArchiveError
from evaluation.content.chain_files import ChainFilesError, assign_files
from evaluation.images import EncodedImage, ImageError
from evaluation.metrics import HEADLINE, METRICS, headline_parts
from leaderboard import formatting, job_queue
from leaderboard.models import StoredImage, UploadedChain, UploadedImage, Use
from leaderboard.models.images import decoding
from leaderboard.models.uploads import KEPT_FOR, MAX_IMAGE_PIXELS
from leaderboard.pages.charts import Curve, retention_chart
from leaderboard.pages.model_page import REGIMES
from leaderboard.text import plain_text
from leaderboard.views.site import noindex
from leaderboard.visitors import client_address, limited, network_of

log = structlog.get_logger(__name__)
MAX_IMAGES = 101
MAX_IMAGE_BYTES = 12 * 2**20
MAX_TOTAL_BYTES = 120 * 2**20
MAX_TOTAL_PIXELS = 300_000_000
MAX_NAME = 100
#: Maximum number of entries of a zip file, with folders and hidden files that programs add.
MAX_ENTRIES = 1_000


class UnusableUpload(ValueError):
    """An upload that is not a valid chain. The visitor sees the message."""


@dataclass(frozen=True)
class Upload:
    """An uploaded file with its name, which is never used on disk.

    Only `read` loads the bytes, so that a web process has one image in memory at a time.
    """

    name: str
    size: int
    read: Callable[[], bytes]


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """Show the form. If an upload is accepted, redirect to the page of its chain."""
    if request.method != "POST":
        return render(request, "leaderboard/upload_chain.html")
    if too_many := limited(request, "upload_chain"):
        return too_many
    address = client_address(request)
    if message := count_upload(address):
        return _refused(request, message, status=429)
    try:
        chain = store_chain(
            _uploads(request),
            name=plain_text(request.POST.get("name", ""))[:80],
            remote_address=address,
        )
    except UnusableUpload as error:
        return _refused(request, str(error), status=422)
    except STORAGE_ERRORS as error:
        # Handle the error now, because the error page's traceback would keep images in memory.
        log.error("upload not stored", error=str(error))
        why = "Images cannot be stored right now. Please try again later."
        return _refused(request, why, status=503)
    return redirect(chain)


def _refused(request: HttpRequest, why: str, status: int) -> HttpResponse:
    return render(
        request,
        "leaderboard/upload_chain.html",
        {"error": why},
        status=status,
    )


def _uploads(request: HttpRequest) -> list[Upload]:
    files: list[Upload] = []
    bytes_left = MAX_TOTAL_BYTES
    for upload in [*request.FILES.getlist("source"), *request.FILES.getlist("restored")]:
        bytes_left -= upload.size or 0
        if bytes_left < 0:
            raise UnusableUpload(
                f"The files have more than {MAX_TOTAL_BYTES // 2**20} MB in total."
            )
        is_zip = upload.read(4) == b"PK\x03\x04"
        upload.seek(0)
        if is_zip:
            unpacked = unpack(upload.name or "The zip file", upload, max_bytes=bytes_left)
            bytes_left -= sum(file.size for file in unpacked)
            files += unpacked
        else:
            files.append(Upload(upload.name or "", upload.size or 0, upload.read))
    if request.FILES.getlist("source") and request.FILES.getlist("restored"):
        # The field of the form determines the source, not the file name.
        first, *rest = files
        files = [replace(first, name="I0_source"), *_numbered(rest)]
    return files


def _numbered(files: list[Upload]) -> list[Upload]:
    if any(chain_files.is_named(file.name) for file in files):
        return files
    ordered = sorted(files, key=lambda file: chain_files.natural_key(file.name))
    return [replace(file, name=f"I{n}_backward") for n, file in enumerate(ordered, start=1)]


@never_cache
@require_safe
@noindex
def detail(request: HttpRequest, token: str) -> HttpResponse:
    """Show the chain's result, or its progress until it is scored."""
    chain = get_object_or_404(UploadedChain.objects.unexpired(), token=token)
    strip = list(chain.images.select_related("stored"))
    context: dict[str, Any] = {
        "chain": chain,
        "strip": strip,
        "source": strip[0],
        "deleted_at": chain.created_at + KEPT_FOR,
    }
    if chain.state == UploadedChain.State.SCORED:
        context |= _result_context(chain)
    response = render(request, "leaderboard/uploaded_chain.html", context)
    response["Referrer-Policy"] = "no-referrer"
    return response


@require_safe
def state(request: HttpRequest, token: str) -> JsonResponse:
    chain = get_object_or_404(UploadedChain.objects.unexpired().only("state"), token=token)
    return JsonResponse({"state": chain.state})


def _result_context(chain: UploadedChain) -> dict[str, Any]:
    results = chain.results
    trips, metrics = results["trips"], results["metrics"]
    names = [name for name in METRICS if name in metrics]
    curves = [Curve(metrics[n]["label"], [1.0, *metrics[n]["retention"]]) for n in names]
    first = metrics[names[0]] if names else None
    figures = []
    for name in names:
        event = metrics[name]["events"][f"{DEFAULT_THRESHOLD:g}"]
        reached = event["time"] if event["cause"] else None
        figures.append(
            (metrics[name]["label"], formatting.half_life(reached, trips), event["cause"])
        )
    rows = [
        {
            "number": number,
            "values": [metrics[name]["shown"][number - 1] for name in names],
            "kept": formatting.percent(max(0.0, first["retention"][number - 1])) if first else "",
            "jpeg": first["jpeg"][number - 1] if first else None,
            "seen": results["change_seen"][number - 1],
            "reframed": results["reframed"][number - 1],
        }
        for number in range(1, trips + 1)
    ]
    chart = retention_chart(
        curves,
        trips,
        id="own",
        title=finding(metrics, names[0], trips) if first else "No metric could be run",
        subtitle="Share of the image kept after each trip, one line for each metric. A "
        "blank card of the source’s mean colour would keep about 0\u00a0%.",
    )
    return {
        "chart": chart if curves else None,
        "figures": figures,
        "rows": rows,
        "labels": [metrics[name]["label"] for name in names],
        "dynamics": results["dynamics"],
        "regime": REGIMES[results["dynamics"]["regime"]],
        "not_run": results["not_run"],
        "main": first,
        "one_trip": _one_trip_sentence(first) if first and trips == 1 else "",
        "judged": any(seen is not None for seen in results["change_seen"]),
    }


def _one_trip_sentence(result: dict[str, Any]) -> str:
    """Return a sentence on a chain of one trip, which is too short for a half-life."""
    share = formatting.percent(max(0.0, result["retention"][0]))
    return f"{share} is left after one round trip. Upload more trips for a half-life."


def finding(metrics: dict[str, Any], name: str, trips: int) -> str:
    """Return a sentence on the final retention.

    For the headline metric (Overall), the sentence also names the part that lost most.
    """
    share = formatting.percent(max(0.0, metrics[name]["retention"][-1]))
    left = f"{formatting.after_round_trips(trips).capitalize()}, {share} of the image is left"
    if name != HEADLINE:
        return f"{left} ({metrics[name]['label']})"
    parts = [part for part in headline_parts() if part in metrics]
    if not parts or metrics[name]["retention"][-1] >= 1:
        return left
    worst = min(parts, key=lambda part: metrics[part]["retention"][-1])
    return f"{left}; most lost: {metrics[worst]['label'].lower()}"


# Unpacking, ordering and storing the files.


def unpack(name: str, file: IO[bytes], max_bytes: int = MAX_TOTAL_BYTES) -> list[Upload]:
    """Return the files of a zip file without reading them.

    Raises UnusableUpload if the files have more than `max_bytes` in total, or one of them more than
    MAX_IMAGE_BYTES.
    """
    try:
        archive = archives.open_archive(file, max_entries=MAX_ENTRIES)
    except ArchiveError as error:
        raise UnusableUpload(f"{name} is not a readable zip file: {error}.") from None
    entries = [
        e for e in archive.infolist() if not e.is_dir() and not e.filename.startswith("__MACOSX")
    ]
    if len(entries) > MAX_IMAGES:
        raise UnusableUpload(f"{name} contains {len(entries)} files; the limit is {MAX_IMAGES}.")
    if sum(entry.file_size for entry in entries) > max_bytes:
        raise UnusableUpload(
            f"{name} is too large: it has more than {max_bytes // 2**20} MB when unpacked."
        )
    uploads = []
    for entry in entries:
        title = entry.filename.rsplit("/", 1)[-1][-MAX_NAME:]
        try:
            archives.check_entry(entry, f"{title} in {name}", MAX_IMAGE_BYTES)
        except ArchiveError as error:
            raise UnusableUpload(f"{error}.") from None
        uploads.append(
            Upload(
                title,
                entry.file_size,
                partial(archives.content, archive, entry, f"{title} in {name}", MAX_IMAGE_BYTES),
            )
        )
    return uploads


def arrange(files: Iterable[Upload]) -> list[tuple[int, bool, Upload]]:
    """Return each file as (trip, is forward, file).

    The source has trip 0. Names such as I1_forward.png determine the order; without such names the
    files are sorted by name. Raises UnusableUpload if the files are not a chain.
    """
    files = list(files)
    if len(files) > MAX_IMAGES:
        raise UnusableUpload(f"The upload has {len(files)} images; the limit is {MAX_IMAGES}.")
    try:
        chain = assign_files(files, lambda file: file.name)
    except ChainFilesError as error:
        raise UnusableUpload(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    rows = [(0, False, chain.source)]
    for number, (forward, backward) in enumerate(chain.trips, start=1):
        if forward:
            rows.append((number, True, forward))
        rows.append((number, False, backward))
    return rows


def count_upload(address: str | None) -> str | None:
    """Count an upload towards the daily quota. Returns a message if the quota is used up."""
    limit = settings.UPLOADED_CHAINS_PER_DAY
    network = network_of(address) if address else "unknown"
    if not Use.objects.take("uploaded chain", {"your network address": network}, limit):
        return None
    return (
        f"Chains from your network address have reached the limit of {limit} in 24 hours. "
        "On your own machine there is no limit: use convergebench score."
    )


def _store_image(file: Upload) -> StoredImage:
    """Check the header of an image and store its bytes.

    `decoding` admits one image at a time, because a JPEG with a colour profile takes four times its
    size in memory. Images of a refused upload are deleted later.
    """
    with decoding:
        try:
            image = EncodedImage.from_head(
                file.read(), max_bytes=MAX_IMAGE_BYTES, max_pixels=MAX_IMAGE_PIXELS
            )
        except ArchiveError as error:
            raise UnusableUpload(f"{error}.") from None
        except ImageError as error:
            raise UnusableUpload(f"{file.name}: {error}.") from None
        return StoredImage.objects.write_bytes(image)


def store_chain(files: Iterable[Upload], *, name: str, remote_address: str | None) -> UploadedChain:
    """Check the headers of all images, then store the chain. Raises UnusableUpload.

    A worker decodes the pixels later, because a worker that takes too long can be killed.
    """
    stored, pixels = [], 0
    for number, forward, file in arrange(files):
        row = _store_image(file)
        pixels += row.width * row.height
        if pixels > MAX_TOTAL_PIXELS:
            raise UnusableUpload(
                f"The images have more than {MAX_TOTAL_PIXELS // 10**6} megapixels in total."
            )
        if not number and min(row.width, row.height) < 64:
            raise UnusableUpload(
                f"The source is {row.width} x {row.height} pixels; both sides need at least 64."
            )
        stored.append((number, forward, row))
    with transaction.atomic():
        StoredImage.objects.upsert(row for *_, row in stored)
        chain = UploadedChain.objects.create(name=name, remote_address=remote_address)
        UploadedImage.objects.bulk_create(
            UploadedImage(chain=chain, number=number, forward=forward, stored=row)
            for number, forward, row in stored
        )
    job_queue.enqueue(chain.pk, job_queue.SCORE_UPLOADED, job_queue.GPU)
    return chain
