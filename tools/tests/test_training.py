import numpy as np
import pytest
from PIL import Image

from evaluation.editors import load_editor
from evaluation.images import EncodedImage


def test_training_resumes_logs_its_loss_and_leaves_a_checkpoint(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed (pip install .[worker])")
    from tools.training import autoencoder

    random = np.random.default_rng(0)
    for name in ("a", "b"):
        blocks = random.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(blocks).resize((256, 256)).save(tmp_path / f"{name}.png")
    options = [
        str(tmp_path / "work"), "--images", str(tmp_path), "--lpips", "0", "--side", "32",
        "--batch", "1", "--minutes", "5", "--log-every", "0", "--channels", "24",
    ]  # fmt: skip
    autoencoder.main([*options, "--steps", "2"])
    autoencoder.main([*options, "--steps", "3"])
    lines = (tmp_path / "work/loss.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["step", "1", "2", "3"]
    editor = load_editor("latent", checkpoint=str(tmp_path / "work/model"))
    image = EncodedImage.from_image(Image.new("RGB", (32, 32), (9, 99, 199)))
    assert editor.edit(image, "Copy the image exactly.").image.size == (32, 32)
