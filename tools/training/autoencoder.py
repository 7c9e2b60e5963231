"""Train the tiny autoencoder that ships with the latent editor.

    nice -n 19 python -m tools.training.autoencoder WORK --images FOLDER ...

Minimises L1 + LPIPS on random crops. A share of the batches (`--own`) are the model's own
outputs, so that images also survive repeated passes. Training stops after `--minutes` of
processor time (not of the clock, because other programs may use the cores too). It
continues when started again with the same WORK folder. WORK then contains the diffusers
folder `model/` and the log of losses, `loss.csv`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from evaluation.metrics import load_metric
from evaluation.torch_compat import fix_torchvision

Pixels = npt.NDArray[np.uint8]

CHANNELS, LATENT_CHANNELS, BLOCKS = 32, 8, (0, 2, 2)
PASSES = (2, 10, 40)  # 1, 5 and 20 trips
FIELDS = ("step", "minutes", "rate", "l1", "lpips", *(f"psnr_after_{n}" for n in PASSES))


def new_autoencoder(channels: int, latent_channels: int, blocks: Sequence[int]) -> Any:
    """Return an untrained AutoencoderTiny; each block after the first halves the image."""
    fix_torchvision()
    from diffusers import AutoencoderTiny

    model: Any = AutoencoderTiny(
        encoder_block_out_channels=(channels,) * len(blocks),
        decoder_block_out_channels=(channels,) * len(blocks),
        num_encoder_blocks=tuple(blocks),
        num_decoder_blocks=tuple(reversed(blocks)),
        latent_channels=latent_channels,
    )
    start_as_haar(model)
    return model


def start_as_haar(model: Any) -> None:
    """Initialise the weights to a Haar transform: averages and differences of 2 x 2 pixels.

    With torch's random weights the model needs an hour to learn averages. Channels 0-2 contain the
    colours. Channels 3 + 2k and 4 + 2k contain difference k, as it is and negated, because a block
    passes only positive values.
    """
    import torch
    from diffusers.models.unets.unet_2d_blocks import AutoencoderTinyBlock

    average, difference = torch.tensor([0, 0.5, 0.5]), torch.tensor([0, 0.5, -0.5])
    hat, edge = torch.tensor([0.25, 0.5, 0.25]), torch.tensor([-0.6, 0, 0.6])
    orientations = ((0, 1), (1, 0), (1, 1))  # rows differ, columns differ, both
    for module in model.modules():
        if isinstance(module, AutoencoderTinyBlock):
            torch.nn.init.zeros_(module.conv[-1].weight)  # the block begins as an identity
            torch.nn.init.zeros_(module.conv[-1].bias)
    convolutions = [m for m in model.encoder.layers if isinstance(m, torch.nn.Conv2d)]
    first, shrinking, code = convolutions[0], convolutions[1:-1], convolutions[-1]
    convolutions = [m for m in model.decoder.layers if isinstance(m, torch.nn.Conv2d)]
    decode, enlarging, last = convolutions[0], convolutions[1:-1], convolutions[-1]
    to_luma = torch.tensor([[0.3, 0.6, 0.1], [0.5, -0.5, 0.0], [-0.2, -0.3, 0.5]])
    with torch.no_grad():
        for layer in (first, *shrinking, code, decode, *enlarging, last):
            layer.weight.mul_(0.1)  # unused channels begin small
        for layer in (first, last):
            layer.weight[:3] = 0
            layer.bias[:3] = 0
        for colour in range(3):
            first.weight[colour, colour, 1, 1] = last.weight[colour, colour, 1, 1] = 1
        for layer in shrinking:
            layer.weight[:21] = 0
            for colour in range(3):
                layer.weight[colour, colour] = torch.outer(average, average)
                for turn, (rows, columns) in enumerate(orientations):
                    channel = 3 + 2 * (3 * colour + turn)
                    kernel = torch.outer(
                        difference if rows else average, difference if columns else average
                    )
                    layer.weight[channel, colour] = kernel
                    layer.weight[channel + 1, colour] = -kernel
        code.weight[:6] = 0
        code.bias[:6] = 0
        decode.weight[:21] = 0
        decode.bias[:21] = 0
        code.weight[:3, :3, 1, 1] = 2 * to_luma
        code.bias[0] = -1
        decode.weight[:3, :3, 1, 1] = torch.linalg.inv(to_luma) / 2
        decode.bias[:3] = torch.linalg.inv(to_luma)[:, 0] / 2
        for turn in range(3):
            for colour in range(3):
                channel = 3 + 2 * (3 * colour + turn)
                for sign, side in ((1, channel), (-1, channel + 1)):
                    code.weight[3 + turn, side, 1, 1] = sign * 4 * to_luma[0, colour]
                    decode.weight[side, 3 + turn, 1, 1] = sign / 4
        for number, layer in enumerate(enlarging):
            layer.weight[:3] = 0
            for colour in range(3):
                layer.weight[colour, colour] = torch.outer(hat, hat)
                for turn, (rows, columns) in enumerate(orientations):
                    channel = 3 + 2 * (3 * colour + turn)
                    kernel = torch.outer(edge if rows else hat, edge if columns else hat)
                    if number == 0:  # the differences are those of the coarsest level
                        layer.weight[colour, channel] = kernel
                        layer.weight[colour, channel + 1] = -kernel


def save_model(model: Any, folder: Path) -> None:
    """Save the diffusers folder, without a config entry that diffusers then warns about."""
    model.save_pretrained(folder)
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config.pop("block_out_channels", None)
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def read_images(folders: Sequence[Path], longest: int) -> list[Pixels]:
    """Read all images below the folders, sorted by path."""
    paths = sorted(path for folder in folders for path in folder.rglob("*.*"))
    images = []
    for path in paths:
        if path.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
            continue
        image = Image.open(path).convert("RGB")
        image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
        images.append(np.asarray(image))
    return images


def crops(images: Sequence[Pixels], side: int, batch: int, seed: int) -> Iterator[Pixels]:
    """Yield endless batches of random crops, half of them mirrored."""
    random = np.random.default_rng(seed)
    usable = [image for image in images if min(image.shape[:2]) >= side]
    while True:
        chosen = []
        for index in random.integers(len(usable), size=batch):
            image = usable[index]
            top = random.integers(image.shape[0] - side + 1)
            left = random.integers(image.shape[1] - side + 1)
            crop = image[top : top + side, left : left + side]
            chosen.append(crop[:, ::-1] if random.random() < 0.5 else crop)
        yield np.stack(chosen)


def as_tensor(pixels: Pixels) -> Any:
    """Convert a batch of 8-bit images to diffusers' format, in [-1, 1]."""
    import torch

    values = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float()
    return (values / 127.5 - 1).contiguous(memory_format=torch.channels_last)


def passed(model: Any, image: Any) -> Any:
    """Return the image after one pass, rounded to 8 bits."""
    answer = model.decode(model.encode(image).latents).sample.clamp(-1, 1)
    return ((answer + 1) * 127.5).round() / 127.5 - 1


def psnr_after(model: Any, images: Sequence[Pixels], passes: Sequence[int]) -> list[float]:
    """Return the PSNR after each number of passes, rounded to 8 bits between passes."""
    import torch

    errors = dict.fromkeys(passes, 0.0)
    with torch.inference_mode():
        for pixels in images:
            height, width = (side // 16 * 16 for side in pixels.shape[:2])
            source = as_tensor(pixels[None, :height, :width])
            image = source
            for n in range(1, max(passes) + 1):
                image = passed(model, image)
                if n in errors:
                    errors[n] += float(((image - source) / 2).square().mean())
    return [-10 * math.log10(max(error / len(images), 1e-10)) for error in errors.values()]


def train(options: argparse.Namespace) -> None:
    import torch

    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    images = read_images(options.images, options.longest)
    held_out = [image[64:192, 64:192] for image in images[::12] if min(image.shape[:2]) >= 192]
    training = [image for index, image in enumerate(images) if index % 12]
    print(f"{len(training)} training images, {len(held_out)} held out", flush=True)

    model = new_autoencoder(options.channels, options.latent_channels, options.blocks)
    model = model.to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.0)
    step, spent = 0, 0.0
    state_file = options.work / "state.pt"
    options.work.mkdir(parents=True, exist_ok=True)
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        step, spent = state["step"], state["spent"]
    lpips = load_metric("lpips").network if options.lpips else None  # type: ignore[attr-defined]

    log = (options.work / "loss.csv").open("a", newline="")
    writer = csv.writer(log)
    if log.tell() == 0:
        writer.writerow(FIELDS)

    def save() -> None:
        save_model(model, options.work / "model")
        waiting = state_file.with_suffix(".tmp")
        torch.save(
            {
                "model": model.state_dict(),
                "optimiser": optimiser.state_dict(),
                "step": step,
                "spent": spent,
            },
            waiting,
        )
        waiting.replace(state_file)

    random = np.random.default_rng(options.seed + step)
    sums, count, last_log = np.zeros(2), 0, spent
    clock = time.process_time()
    for batch in crops(training, options.side, options.batch, options.seed + step):
        # The rate warms up, then falls on a cosine to a hundredth, by time spent instead of steps.
        share = min(spent / (60 * options.minutes), 1.0)
        rate = (
            options.rate * min(1.0, (step + 1) / 100) * (0.505 + 0.495 * math.cos(math.pi * share))
        )
        for group in optimiser.param_groups:
            group["lr"] = rate
        image = as_tensor(batch)
        if random.random() < options.own:
            with torch.no_grad():
                image = passed(model, image)
        answer = model.decode(model.encode(image).latents).sample
        l1 = (answer - image).abs().mean() / 2
        perceptual = lpips(answer, image).mean() if lpips else torch.zeros(())
        optimiser.zero_grad(set_to_none=True)
        (l1 + options.lpips * perceptual).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        sums += (l1.item(), perceptual.item())
        count += 1
        now = time.process_time()
        spent, clock = spent + now - clock, now
        done = spent >= 60 * options.minutes or step == options.steps
        if spent - last_log >= options.log_every or done:
            model.eval()
            values = [*(sums / count), *psnr_after(model, held_out, PASSES)]
            model.train()
            writer.writerow(
                [step, f"{spent / 60:.2f}", f"{rate:.2e}", *(f"{v:.4f}" for v in values)]
            )
            log.flush()
            save()
            sums, count, last_log = np.zeros(2), 0, spent
            clock = time.process_time()  # validation does not count as training
        if done:
            return


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="folder for the model, its state and the log")
    parser.add_argument(
        "--images", type=Path, nargs="+", required=True, help="folders of training images"
    )
    parser.add_argument("--longest", type=int, default=512, help="longest side of an image")
    parser.add_argument("--minutes", type=float, default=60, help="minutes of processor time")
    parser.add_argument("--steps", type=int, help="stop after this many steps at the latest")
    parser.add_argument("--lpips", type=float, default=0.1, help="weight of LPIPS relative to L1")
    parser.add_argument(
        "--own", type=float, default=0.25, help="share of batches of the model's own outputs"
    )
    parser.add_argument("--side", type=int, default=96, help="side of a crop, in pixels")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "1")))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--log-every", type=float, default=120, help="seconds of processor time between lines"
    )
    parser.add_argument("--channels", type=int, default=CHANNELS)
    parser.add_argument("--latent-channels", type=int, default=LATENT_CHANNELS)
    parser.add_argument("--blocks", type=int, nargs="+", default=BLOCKS)
    train(parser.parse_args(argv))


if __name__ == "__main__":
    main()
