"""An editing endpoint to copy: put your model into `edit`, then `python example_server.py 8000`."""

import base64
import email
import io
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image, ImageDraw


def edit(image: Image.Image, prompt: str) -> Image.Image:
    """Run your model. This placeholder recolours a disc for any prompt; a second call undoes it.

    The placeholder passes the test of a submission. But its run would stay unranked, because the
    edits do not follow the prompts.
    """
    disc = Image.new("L", image.size)
    ImageDraw.Draw(disc).circle((image.width // 2, image.height * 2 // 3), image.width // 7, 255)
    return Image.composite(image.point([value ^ 128 for value in range(256)] * 3), image, disc)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        kind = self.headers["Content-Type"]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if kind.startswith("multipart/"):  # {base}/images/edits
            parts = email.message_from_bytes(f"Content-Type: {kind}\n\n".encode() + body).walk()
            form: Any = {p.get_param("name", header="content-disposition"): p for p in parts}
            image = form["image"].get_payload(decode=True)
            prompt = form["prompt"].get_payload(decode=True).decode()
        else:  # {base}/images/generations, {base}/predictions (Cog), Hugging Face
            data = json.loads(body)
            data = data.get("input", data)
            image = base64.b64decode((data.get("image") or data["inputs"]).split(",")[-1])
            prompt = data.get("parameters", data)["prompt"]
        png = io.BytesIO()
        edit(Image.open(io.BytesIO(image)).convert("RGB"), prompt).save(png, "PNG")
        kind, answer = "image/png", png.getvalue()
        if self.path.endswith(("/edits", "/generations", "/predictions")):
            b64 = base64.b64encode(answer).decode()
            data = {"data": [{"b64_json": b64}]}
            if self.path.endswith("/predictions"):
                data = {"status": "succeeded", "output": f"data:image/png;base64,{b64}"}
            kind, answer = "application/json", json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
