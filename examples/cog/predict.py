"""An editing endpoint with Cog. Put your model into `edit`, run `cog build` and serve it.

To submit it, choose the API format “Cog predictions” and give the address without /predictions.
"""

import tempfile

from cog import BasePredictor, Input, Path
from PIL import Image, ImageOps


def edit(image: Image.Image, prompt: str) -> Image.Image:
    """Run your model. This placeholder mirrors the image for any prompt."""
    return ImageOps.mirror(image)


class Predictor(BasePredictor):
    def predict(
        self,
        image: Path = Input(description="The image to edit"),
        prompt: str = Input(description="What to change"),
        seed: int = Input(default=0, description="The same seed gives the same image"),
        width: int = Input(default=0, description="Width of the answer; 0: as sent"),
        height: int = Input(default=0, description="Height of the answer; 0: as sent"),
    ) -> Path:
        out = Path(tempfile.mkdtemp()) / "answer.png"
        edit(Image.open(image).convert("RGB"), prompt).save(out)
        return out
