"""The site as plain files: pages, strips, pictures and downloads that any web host serves.

The pages are asked for as a visitor would and their links followed, so what is
frozen is what is shown. Tables to download are written as files. What needs a server (choices,
sorting, the API) leads to the live site, where there is one, or to a page that says so; forms
are shown and can be used on the live site only. All links are relative: a snapshot works in a
folder of a host, too.
"""

from __future__ import annotations

import posixpath
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
from leaderboard.visitors import OWN_REQUEST

#: Where links lead that only a server can follow.
ELSEWHERE = "/snapshot/"
ALIVE = re.compile(
    r"/(submit|submissions|subscribe|subscriptions|try|vote|admin|api|livez|readyz|metrics|accounts)(/|$)"
)
ATTRIBUTE = re.compile(r'(\s(?:href|src|srcset|action|poster|data-[\w-]+)=)"([^"]*)"')
PICTURE = re.compile(r"/pictures/(thumbnail|copy|original|jpeg)/[0-9a-f]{64}(/\d+)?$")
#: Pages that are shown whatever their query says; of others a query makes another page.
SAME_PAGE = re.compile(r"/models/[\w-]+/$")
TABLE = re.compile(r"(?:^|&)format=(csv|json)(?:&|$)")
FILE_NAME = re.compile(r'filename="?([\w.-]+)"?')
FORM = re.compile(r"(<form[^>]*>)(.*?)(</form>)", re.DOTALL)
#: What stands outside of a form and belongs to it.
OF_A_FORM = re.compile(r'<(input|button|select)([^>]*\sform="[^"]+")([^>]*)>')
LOCAL = ("localhost", "127.0.0.1", "::1")
MAIN = re.compile(r"(<main[^>]*>)")
HTML = "text/html"
#: A board has a table for each of its choices; nobody needs them all.
MOST_TABLES = 200


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

    def __init__(self, out: Path, host: str = "", live_url: str = "") -> None:
        self.out = out
        self.live_url = (live_url or settings.SITE_URL).rstrip("/")
        #: Whether others can reach it; a machine's own name is of no use to them.
        self.is_live = urlsplit(self.live_url).hostname not in (*LOCAL, None)
        #: Where tables were written, by the address that gave them.
        self.tables: dict[str, str] = {}
        self.host = host or urlsplit(settings.SITE_URL).netloc or "localhost"
        self.client = Client(headers={"host": self.host})
        self.client.defaults[OWN_REQUEST] = "yes"
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
        if not path or path.startswith(settings.STATIC_URL):
            return
        if TABLE.search(_query(url)):
            self._write_table(f"{path}?{_query(url)}")
        else:
            self._want(_plain(path))

    def _write_table(self, address: str) -> None:
        """Write the table that this address gives, under the name it gives it."""
        if address in self.tables or len(self.tables) >= MOST_TABLES:
            return
        answer = self.client.get(address, secure=not settings.DEBUG)
        named = FILE_NAME.search(answer.headers.get("Content-Disposition", ""))
        if answer.status_code != 200 or not named:
            self.found.missing.append(address)
            return
        stem, _, ending = named[1].rpartition(".")
        path = f"/downloads/{stem}.{ending}"
        if path in self.tables.values():
            path = f"/downloads/{stem}-{len(self.tables)}.{ending}"
        self.tables[address] = path
        self._write(path.lstrip("/"), _body(answer))
        self.found.files += 1

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

        note = f'<p class="note">A snapshot of {timezone.now():%-d %B %Y}. {self._live_words()}</p>'
        text = text.replace("<head>", f"<head>\n{_policy()}", 1)
        text = FORM.sub(r'\1<fieldset disabled class="frozen">\2</fieldset>\3', text)
        text = FORM.sub(rf"\1\2\3{self._frozen_words(page)}", text)
        # Its script would offer what only a server can do.
        text = OF_A_FORM.sub(r"<\1\2\3 disabled>", text).replace('id="compare-button"', "")
        text = MAIN.sub(rf"\1{note}", ATTRIBUTE.sub(attribute, text), count=1)
        # What is left names the site to others: its citation, its picture.
        return text.replace(settings.SITE_URL, self.live_url if self.is_live else "")

    def _live_words(self) -> str:
        if not self.is_live:
            return "It is not said where the live site is."
        return f'The live site is <a href="{escape(self.live_url)}">{escape(self.live_url)}</a>.'

    def _frozen_words(self, page: str) -> str:
        there = f'<a href="{escape(self.live_url + page)}">live site</a>'
        where = there if self.is_live else "live site"
        return f'<p class="small muted">These choices work on the {where} only.</p>'

    def _link(self, page: str, url: str) -> str:
        path, query = self._own(page, url), _query(url)
        if path is None:
            return url
        if path.startswith(settings.STATIC_URL):
            return _relative(page, path)
        if table := self.tables.get(f"{path}?{query}"):
            return _relative(page, table)
        other = query and path.endswith("/") and not SAME_PAGE.match(path)
        if self.is_live and (other or ALIVE.match(path)):
            return escape(f"{self.live_url}{path}{'?' if query else ''}{query}")
        path, fragment = _plain(path), urldefrag(unescape(url)).fragment
        if other or ALIVE.match(path) or self.dead.get(path) or path not in self.seen:
            return _relative(page, ELSEWHERE)
        return _relative(page, _address(path)) + (f"#{fragment}" if fragment else "")

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
            f"the live site. {self._live_words()}</p>"
            '<p><a href="../">Back to the board</a></p></main></body></html>'
        )
        self._write(_file(ELSEWHERE), text.encode())

    def _write(self, name: str, data: bytes) -> None:
        place = self.out / name
        if not place.resolve().is_relative_to(self.out.resolve()):
            raise FreezeError(f"{name} would leave {self.out}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _query(url: str) -> str:
    return urlsplit(unescape(url)).query


def _relative(page: str, path: str) -> str:
    """How a page of the snapshot names another: also right in a folder of a host."""
    folder = page if page.endswith("/") else f"{page.rpartition('/')[0]}/"
    found = posixpath.relpath(path, folder)
    return f"{found}/" if path.endswith("/") else found


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
