"""An editing endpoint next to a Gradio demo. Put your model into `edit`, then:

pip install gradio uvicorn pillow && uvicorn gradio_server:app --port 8000

The demo is at /, the endpoint at /v1/images/edits.
"""

import base64
import io
from typing import Annotated

import gradio
from fastapi import FastAPI, Form, UploadFile
from PIL import Image, ImageOps


def edit(image: Image.Image, prompt: str) -> Image.Image:
    """Run your model. This placeholder mirrors the image for any prompt."""
    return ImageOps.mirror(image)


api = FastAPI()


@api.post("/v1/images/edits")
def edits(image: UploadFile, prompt: Annotated[str, Form()]) -> dict[str, list[dict[str, str]]]:
    """Serve the API format “OpenAI, images/edits”."""
    answer = io.BytesIO()
    edit(Image.open(image.file).convert("RGB"), prompt).save(answer, "PNG")
    return {"data": [{"b64_json": base64.b64encode(answer.getvalue()).decode()}]}


demo = gradio.Interface(edit, [gradio.Image(type="pil"), "text"], gradio.Image())
app = gradio.mount_gradio_app(api, demo, path="/")
