"""The site as plain files: pages, strips, pictures and downloads that any web host serves.

The pages are asked for as a visitor would and their links followed, so what is
frozen is what is shown. Addresses with a query point at the plain page; what
needs a server (forms, the API) at a page that says so.
"""

from __future__ import annotations

import re
import shutil
from collections import deque
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from django.conf import settings
from django.contrib.sitemaps import Sitemap
from django.contrib.staticfiles import finders
from django.http import HttpResponseBase
from django.test import Client
from django.utils import timezone

from leaderboard.exchange.sitemaps import SITEMAPS

#: Where links lead that only a server can follow.
ELSEWHERE = "/snapshot/"
ALIVE = re.compile(r"/(submit|submissions|try|admin|api|livez|readyz|metrics|accounts)(/|$)")
ATTRIBUTE = re.compile(r'(\s(?:href|src|srcset|action|poster|data-[\w-]+)=)"([^"]*)"')
PICTURE = re.compile(r"/pictures/(thumbnail|copy|original|jpeg)/[0-9a-f]{64}(/\d+)?$")
MAIN = re.compile(r"(<main[^>]*>)")
HTML = "text/html"


class FreezeError(ValueError):
    """A snapshot that is not made; the message is written for people."""


@dataclass
class Frozen:
    """What was written: pages, other files, and addresses that did not answer."""

    pages: int = 0
    files: int = 0
    missing: list[str] = field(default_factory=list)


class Freezer:
    """Walks the site from its front page and writes what it finds under `out`."""

    def __init__(self, out: Path, host: str = "") -> None:
        self.out = out
        self.host = host or urlsplit(settings.SITE_URL).netloc or "localhost"
        self.client = Client(headers={"host": self.host})
        self.seen: set[str] = set()
        self.todo: deque[str] = deque()
        self.found = Frozen()
        self.dead: dict[str, bool] = {}

    def freeze(self) -> Frozen:
        """Write everything; FreezeError where `out` holds something already."""
        if self.out.exists() and any(self.out.iterdir()):
            raise FreezeError(f"{self.out} is not empty; name a new folder")
        self._static()
        self._say_elsewhere()
        for path in ("/", *_sitemap(), "/robots.txt", "/board.png"):
            self._want(path)
        pages: dict[str, str] = {}
        while self.todo:
            path = self.todo.popleft()
            answer = self.client.get(path, follow=True, secure=not settings.DEBUG)
            if answer.status_code != 200:
                self.dead[path] = True
                self.found.missing.append(path)
                continue
            if answer.headers.get("Content-Type", "").startswith(HTML):
                # Links can be followed now and rewritten only when all were tried.
                pages[path] = answer.content.decode()
                for _, value in ATTRIBUTE.findall(pages[path]):
                    for url in _urls(value):
                        self._follow(path, url)
            else:
                self._write(_file(path), _body(answer))
                self.found.files += 1
        for path, text in pages.items():
            self._write(_file(path), self._rewritten(path, text).encode())
            self.found.pages += 1
        return self.found

    def _want(self, path: str) -> None:
        if path not in self.seen and not ALIVE.match(path):
            self.seen.add(path)
            self.todo.append(path)

    def _follow(self, page: str, url: str) -> None:
        path = self._own(page, url)
        if path and not path.startswith(settings.STATIC_URL):
            self._want(_plain(path))

    def _own(self, page: str, url: str) -> str | None:
        """The path on this site that a link leads to; None for all others."""
        if not url or url.startswith("#"):
            return None
        parts = urlsplit(urljoin(f"https://{self.host}{page}", unescape(url)))
        ours = parts.netloc in (self.host, urlsplit(settings.SITE_URL).netloc)
        if parts.scheme not in ("http", "https") or not ours:
            return None
        return parts.path or "/"

    def _rewritten(self, page: str, text: str) -> str:
        def attribute(match: re.Match[str]) -> str:
            name, value = match.groups()
            # data-* holds all sorts of things; only what looks like an address is one.
            if " data-" in f" {name.strip()}" and not re.match(r"/|https?:|\?", value):
                return match.group()
            if "srcset" in name:
                sizes = [part.strip().split(" ", 1) for part in value.split(",")]
                new = ", ".join(" ".join([self._link(page, s[0]), *s[1:]]) for s in sizes)
            else:
                new = self._link(page, value)
            return f'{name}"{new}"'

        note = (
            f'<p class="note">A snapshot of {timezone.now():%-d %B %Y}; the live site is '
            f'<a href="{escape(settings.SITE_URL)}">{escape(settings.SITE_URL)}</a>.</p>'
        )
        text = text.replace("<head>", f"<head>\n{_policy()}", 1)
        return MAIN.sub(rf"\1{note}", ATTRIBUTE.sub(attribute, text), count=1)

    def _link(self, page: str, url: str) -> str:
        path = self._own(page, url)
        if path is None:
            return url
        if path.startswith(settings.STATIC_URL):
            return path
        path, fragment = _plain(path), urldefrag(unescape(url)).fragment
        if ALIVE.match(path) or self.dead.get(path) or path not in self.seen:
            return ELSEWHERE
        return _address(path) + (f"#{fragment}" if fragment else "")

    def _static(self) -> None:
        """All static files: as they are in the project, and as they were collected."""
        target = self.out / settings.STATIC_URL.strip("/")
        for finder in finders.get_finders():
            for name, storage in finder.list(["admin", "debug_toolbar"]):
                if name.split("/")[0] in ("admin", "django_rq", "rest_framework"):
                    continue
                place = target / name
                place.parent.mkdir(parents=True, exist_ok=True)
                with storage.open(name) as file:
                    place.write_bytes(file.read())
                self.found.files += 1
        if Path(settings.STATIC_ROOT).is_dir():
            shutil.copytree(settings.STATIC_ROOT, target, dirs_exist_ok=True)

    def _say_elsewhere(self) -> None:
        text = (
            f'<!DOCTYPE html><html lang="en"><head>{_policy()}<meta charset="utf-8">'
            '<link rel="icon" href="data:,">'
            "<title>ConvergeBench, a snapshot</title></head><body><main><h1>A snapshot</h1>"
            f"<p>These pages were saved on {timezone.now():%-d %B %Y}. What you asked for needs "
            f'the live site: <a href="{escape(settings.SITE_URL)}">{escape(settings.SITE_URL)}'
            '</a>.</p><p><a href="/">Back to the board</a></p></main></body></html>'
        )
        self._write(_file(ELSEWHERE), text.encode())

    def _write(self, name: str, data: bytes) -> None:
        place = self.out / name
        if not place.resolve().is_relative_to(self.out.resolve()):
            raise FreezeError(f"{name} would leave {self.out}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _policy() -> str:
    """The site's content policy as a tag: whoever serves the snapshot may send no headers."""
    directives = settings.CONTENT_SECURITY_POLICY["DIRECTIVES"]
    text = "; ".join(
        f"{name} {' '.join(sources)}"
        for name, sources in directives.items()
        if name != "frame-ancestors"  # which counts in a header only
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{escape(text)}">'


def _sitemap() -> list[str]:
    """Everything that search engines are told of: no page is missed for want of a link."""
    found = []
    for kind in SITEMAPS.values():
        sitemap = kind() if isinstance(kind, type) else kind
        found += [_location(sitemap, item) for item in sitemap.items()]
    return found


def _location(sitemap: Sitemap, item: object) -> str:  # type: ignore[type-arg]
    return str(sitemap.location(item))


def _urls(value: str) -> list[str]:
    """The addresses in an attribute: one, or several with sizes (srcset)."""
    if not re.match(r"/|https?:|\?|\.|[\w-]+/", value):
        return []
    return [part.strip().split(" ")[0] for part in value.split(", ")]


def _plain(path: str) -> str:
    """The address that is frozen for this one: an original is shown as its copy."""
    path = unquote(path)
    return path.replace("/pictures/original/", "/pictures/copy/", 1)


def _address(path: str) -> str:
    """The address of a frozen path: pictures get the ending that hosts go by."""
    match = PICTURE.match(path)
    if match:
        return path + (".jpg" if match[1] == "jpeg" else ".webp")
    return path


def _file(path: str) -> str:
    """The file that a host serves at this path."""
    name = _address(path).strip("/")
    if path.endswith("/") or (not PurePosixPath(name).suffix):
        return f"{name}/index.html".lstrip("/")
    return name


def _body(answer: HttpResponseBase) -> bytes:
    if answer.streaming:
        return b"".join(answer.streaming_content)  # type: ignore[attr-defined]
    return bytes(answer.content)  # type: ignore[attr-defined]
