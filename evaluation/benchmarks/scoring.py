"""Speed of scoring a chain, compared with scikit-image, lpips and DINOv2 pair by pair.

    python -m evaluation.benchmarks.scoring

The usual way repeats the following for each trip: decode the source and the restored image, compute
scikit-image's PSNR and Gaussian SSIM, `lpips.LPIPS` and transformers' DINOv2 on both images. The
benchmark fails if the scorer's values differ. The scorer also computes all other metrics that run
here.

It prints the milliseconds per restored image, and the share of the machine's peak that they reach.
The peak is measured in the same run by matrix products with the shapes of the layers of LPIPS and
DINOv2, on as many threads. Finally it prints how much time all witnesses (automatic checks of
edits) add to the scoring of a chain.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from evaluation import weights
from evaluation.content.suites import EditPair
from evaluation.editors.drawings import draw
from evaluation.images import EncodedImage, encode_jpeg, encode_png
from evaluation.measuring.scoring import Scorer
from evaluation.metrics import full_reference_metrics
from evaluation.metrics.batches import threads
from evaluation.metrics.lpips import Lpips
from evaluation.metrics.networks.dinov2 import AREA, PATCH, patches
from evaluation.metrics.overall import LAYERS, Overall
from evaluation.play.external_chains import ExternalChain, build_runs, score_runs
from evaluation.witnesses import DEFAULT_WITNESSES

TOLERANCE = 1e-4
METRICS = ("psnr", "ssim", "lpips")

Table = dict[str, list[float]]


def chain(side: int, trips: int) -> tuple[bytes, list[bytes]]:
    """Return a source and restored images that are more worn with each trip, as PNG."""
    source = Image.fromarray(data.astronaut()).resize((side, side), Image.Resampling.LANCZOS)
    rng = np.random.default_rng(0)
    restored, image = [], source
    for _ in range(trips):
        values = np.asarray(image) + rng.normal(0, 3, (side, side, 3))
        image = Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))
        image = EncodedImage.from_bytes(encode_jpeg(image, 85)).decoded
        restored.append(encode_png(image))
    return encode_png(source), restored


def pair_by_pair(network: Any, dino: Any, source: bytes, restored: list[bytes]) -> Table:
    """Score a chain as most evaluation scripts do."""
    import torch

    table: Table = {name: [] for name in METRICS}
    for answer in restored:
        one, other = (
            np.asarray(Image.open(io.BytesIO(image)).convert("RGB")) for image in (source, answer)
        )
        table["psnr"].append(peak_signal_noise_ratio(one, other, data_range=255))
        similarity = structural_similarity(
            one,
            other,
            data_range=255,
            channel_axis=2,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        table["ssim"].append(float(similarity))
        tensors = [
            torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float32)) / 127.5 - 1
            for image in (one, other)
        ]
        with torch.no_grad():
            table["lpips"].append(float(network(*tensors)))
            patches(dino, [Image.fromarray(one), Image.fromarray(other)], LAYERS)
    return table


def score_chain(scorer: Scorer, source: bytes, restored: list[bytes]) -> Table:
    """Score the same bytes with the scorer."""
    scores = scorer.score(
        EncodedImage.from_bytes(source), (EncodedImage.from_bytes(answer) for answer in restored)
    ).distances
    return {
        name: [float(metric.shown(distance) or 0) for distance in scores[name] or []]
        for name, metric in scorer.metrics.items()
    }


def seconds_with_witnesses(side: int, trips: int) -> tuple[float, float]:
    """Return the processor seconds to score a chain of hat edits without and with witnesses.

    Wall-clock time would depend on other load of the machine.
    """
    source, restored = chain(side, trips)
    encoded_source = EncodedImage.from_bytes(source)
    restored_images = [EncodedImage.from_bytes(answer) for answer in restored]
    edits = [EncodedImage.from_image(draw("hat", image.decoded)) for image in restored_images]
    pair = EditPair("hat", "accessories", "Add a hat.", "Remove it.", "local", object="hat")
    taken = []
    for names in ((), DEFAULT_WITNESSES):
        scorer = Scorer()
        scorer.panel.restrict_to(names)
        seconds = 0.0
        for warm in (True, False):
            steps = list(zip(edits, restored_images, strict=True))[: 1 if warm else None]
            start = time.process_time()
            own_chain = ExternalChain("hat", encoded_source, tuple(steps), pair)
            own = build_runs({"hat": [("hat", own_chain)]}, read=lambda image: image)
            score_runs(own, scorer, read=lambda image: image)
            seconds = time.process_time() - start
        taken.append(seconds)
    return taken[0], taken[1]


def products(side: int) -> list[tuple[int, int, int]]:
    """Return the rows, depth and columns of the matrix products for one image's layers."""
    import torch

    shapes = []

    def record(module: Any, inputs: Any, outputs: Any) -> None:
        if isinstance(module, torch.nn.Conv2d):
            height, width = module.kernel_size
            _, channels, *positions = outputs.shape
            shapes.append((int(np.prod(positions)), module.in_channels * height * width, channels))
        else:
            shapes.append((inputs[0].shape[-2], module.in_features, module.out_features))

    lpips, dino = Lpips().load().eval().net, Overall().load().eval()
    for module in (*lpips.modules(), *dino.modules()):
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            module.register_forward_hook(record)
    with torch.inference_mode():
        lpips(torch.zeros(1, 3, side, side))
        patches(dino, [Image.new("RGB", (side, side))], LAYERS)
    # In every head, attention compares all patches with each other and sums their values.
    config, tokens = dino.config, AREA // PATCH**2 + 1
    heads = config.num_hidden_layers * config.num_attention_heads
    width = config.hidden_size // config.num_attention_heads
    attention = ((tokens, width, tokens), (tokens, tokens, width))
    return [*shapes, *attention * heads]


def seconds_at_peak(side: int, repeats: int = 3) -> float:
    """Return the seconds of the matrix products for one image, with all processors busy."""
    import torch

    device = Lpips().device
    kind = torch.float32 if device == "cpu" else torch.float16
    factors = [
        (
            torch.rand(rows, depth, device=device).to(kind),
            torch.rand(depth, columns).to(device, kind),
        )
        for rows, depth, columns in products(side)
    ]

    def multiply(_: int) -> None:
        with torch.inference_mode():
            for one, other in factors:
                one @ other

    with threads([Lpips()], (side, side)) as pool:
        several = pool._max_workers if device == "cpu" else 1
        times = []
        for _ in range(repeats + 1):  # the first one warms up
            start = time.perf_counter()
            list(pool.map(multiply, range(several)))
            if device != "cpu":
                torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / several)
    return min(times[1:])


def timed(work: Callable[[], Table]) -> tuple[float, Table]:
    start = time.perf_counter()
    table = work()
    return time.perf_counter() - start, table


def largest_difference(one: Table, other: Table) -> float:
    return max(float(np.abs(np.subtract(one[name], other[name])).max()) for name in METRICS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--side", type=int, default=1024, help="side of the images, in pixels")
    parser.add_argument("--trips", type=int, default=20)
    parser.add_argument(
        "--repeats",
        type=int,
        default=2,
        help="measurements of each way, of which the fastest counts",
    )
    options = parser.parse_args()
    weights.fetch("lpips-alex")
    weights.fetch(Overall.weights)
    # The plain networks of the packages.
    network, dino = Lpips().load().eval(), Overall().load().eval()
    dino.set_attn_implementation("sdpa")
    source, restored = chain(options.side, options.trips)
    warm = Scorer(full_reference_metrics())
    pair_by_pair(network, dino, source, restored[:1])
    score_chain(warm, source, restored[:1])
    slow, quick = [], []
    for _ in range(options.repeats):
        slow.append(timed(lambda: pair_by_pair(network, dino, source, restored)))
        scorer = Scorer(warm.names)  # a new scorer has no features of the source
        scorer.metrics = warm.metrics
        quick.append(timed(lambda: score_chain(scorer, source, restored)))  # noqa: B023 -- called here
    difference = largest_difference(slow[0][1], quick[0][1])
    if difference > TOLERANCE:
        raise SystemExit(f"the two ways differ by {difference:.2g}, more than {TOLERANCE:g}")
    before, after = (min(seconds for seconds, _ in runs) for runs in (slow, quick))
    print(
        f"scoring a {options.trips}-trip chain, {options.side} px: {before / after:.1f}x faster "
        f"than scikit-image + lpips + DINOv2 ({before:.1f} s -> {after:.1f} s, "
        f"values equal within {max(difference, 1e-9):.0e}), with {', '.join(warm.metrics)}"
    )
    peak = seconds_at_peak(options.side)
    print(
        f"{1000 * after / options.trips:.0f} ms a restored image, {options.trips * peak / after:.0%} of "
        f"the peak of the matrix products of LPIPS and DINOv2 ({1000 * peak:.0f} ms); this share "
        "may pass 100 %, because FFT and Winograd convolutions need fewer multiplications and "
        "oneDNN is faster than MKL on some processors"
    )
    without, with_all = seconds_with_witnesses(512, 4)
    print(
        f"all witnesses on a 4-trip chain of a portrait, 512 px: {with_all / without:.2f}x the "
        f"processor time ({without:.1f} s -> {with_all:.1f} s)"
    )


if __name__ == "__main__":
    main()
