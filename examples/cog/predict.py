"""An editing endpoint with Cog. Put your model into `edit`, then: cog build, and serve the image.

Submit it under the contract “Cog predictions”; its address ends before /predictions.
"""

import tempfile

from cog import BasePredictor, Input, Path
from PIL import Image, ImageOps


def edit(image: Image.Image, prompt: str) -> Image.Image:
    """Your model. This stand-in mirrors the image, whatever it is asked."""
    return ImageOps.mirror(image)


class Predictor(BasePredictor):
    def predict(
        self,
        image: Path = Input(description="The image to edit"),
        prompt: str = Input(description="What to change"),
        seed: int = Input(default=0, description="Draws the same image again"),
        width: int = Input(default=0, description="Of the answer; 0 as it is sent"),
        height: int = Input(default=0, description="Of the answer; 0 as it is sent"),
    ) -> Path:
        out = Path(tempfile.mkdtemp()) / "answer.png"
        edit(Image.open(image).convert("RGB"), prompt).save(out)
        return out
