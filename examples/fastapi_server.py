"""An editing endpoint with FastAPI. Put your model into `edit`, then:

pip install fastapi python-multipart uvicorn pillow && uvicorn fastapi_server:app --port 8000
"""

import base64
import io
from typing import Annotated

from fastapi import FastAPI, Form, UploadFile
from PIL import Image, ImageOps

app = FastAPI()


def edit(image: Image.Image, prompt: str) -> Image.Image:
    """Run your model. This placeholder mirrors the image for any prompt."""
    return ImageOps.mirror(image)


@app.post("/v1/images/edits")
def edits(image: UploadFile, prompt: Annotated[str, Form()]) -> dict[str, list[dict[str, str]]]:
    """Serve the API format “OpenAI, images/edits”."""
    answer = io.BytesIO()
    edit(Image.open(image.file).convert("RGB"), prompt).save(answer, "PNG")
    return {"data": [{"b64_json": base64.b64encode(answer.getvalue()).decode()}]}
