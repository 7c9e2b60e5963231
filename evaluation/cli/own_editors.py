"""Somebody's own editor: a class or a function, by its place or as an object.

    my.module:MyEditor        importable, or lying where the command is given
    path/to/file.py:MyEditor  in a file

It is an Editor's class (made with the options), an Editor, or anything that can be
called with (image, prompt, seed) and returns a PIL image.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import pkgutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from evaluation.cli.editor_options import check_options
from evaluation.editors.base import Answer, Beside, Editor, Refused
from evaluation.editors.failures import configuration
from evaluation.errors import EditorError, UserFacingError
from evaluation.images import Picture

#: (image, prompt, seed) -> image
EditFunction = Callable[[Image.Image, str, int | None], Any]


class OwnEditorError(UserFacingError):
    """An own editor that cannot be found or made."""


@dataclass(eq=False)
class OwnEditor(Editor):
    """Another editor, whose unforeseen exceptions pause the run instead of breaking it."""

    inner: Editor

    def send(
        self, picture: Picture, prompt: str, seed: int | None = None, beside: Beside | None = None
    ) -> Answer:
        with _told(self.inner):
            return self.inner.send(picture, prompt, seed, beside)

    def edit(self, picture: Picture, prompt: str, seed: int | None = None) -> Answer:
        with _told(self.inner):
            return self.inner.edit(picture, prompt, seed)

    def missing(self) -> list[str]:
        return self.inner.missing()

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def close(self) -> None:
        self.inner.close()


@contextmanager
def _told(editor: Editor) -> Iterator[None]:
    try:
        yield
    except (Refused, EditorError):
        raise
    # Somebody's own code runs here, and may raise anything.
    except Exception as error:
        raise configuration(f"{_name(editor)}: {type(error).__name__}: {error}") from error


def _name(editor: Editor) -> str:
    return str(editor.describe().get("function") or type(editor).__name__)


@dataclass(eq=False)
class FunctionEditor(Editor):
    """Any function as an editor."""

    function: EditFunction
    about: Mapping[str, Any] = field(default_factory=dict)

    def edit(self, picture: Picture, prompt: str, seed: int | None = None) -> Answer:
        started = time.perf_counter()
        answer = self.function(picture.image, prompt, seed)
        seconds = time.perf_counter() - started
        if isinstance(answer, Answer):
            return answer
        if isinstance(answer, Image.Image):
            answer = Picture.from_image(answer.convert("RGB"))
        if not isinstance(answer, Picture):
            raise configuration(f"{_name(self)} returned no PIL image: {answer!r:.80}")
        return Answer(answer, seconds)

    def describe(self) -> dict[str, Any]:
        return dict(self.about)


def is_place(name: str) -> bool:
    """Whether a name says where an own editor lies."""
    return ":" in name


def load_own(place: str, options: Mapping[str, Any]) -> Editor:
    """The editor that lies at `place`; OwnEditorError says what is wrong with it."""
    return as_editor(find_own(place), options, place)


def find_own(place: str) -> Any:
    """The class, function or object that lies at `place`."""
    module, _, name = place.rpartition(":")
    try:
        return _from_file(Path(module), name) if module.endswith(".py") else _imported(place)
    except OwnEditorError:
        raise
    # Somebody's own code runs here, and may raise anything.
    except Exception as error:
        raise OwnEditorError(f"{place}: {type(error).__name__}: {error}") from error


def as_editor(found: Any, options: Mapping[str, Any], place: str = "") -> Editor:
    """An Editor of a class, an object or a function; a class is made with the options."""
    place = place or place_of(found)
    if isinstance(found, Editor):
        if options:
            raise OwnEditorError(f"{place} is made already, so it takes no options")
        return OwnEditor(found)
    about = {"function": place, "source_sha256": _source_hash(found)}
    if inspect.isclass(found):
        check_options(place, found, options)
        try:
            found = found(**options)
        except (TypeError, ValueError) as error:
            message = str(error).partition("__init__() ")[2] or str(error)
            raise OwnEditorError(f"{place} {message}; see --option") from None
        if isinstance(found, Editor):
            return OwnEditor(found)
    elif options:
        found = partial(found, **options)
    if not callable(found):
        raise OwnEditorError(
            f"{place} is neither an Editor nor a function of (image, prompt, seed)"
        )
    return OwnEditor(FunctionEditor(found, about))


def place_of(found: Any) -> str:
    """Where an object lies, as `--editor` takes it."""
    named = found if hasattr(found, "__qualname__") else type(found)
    return f"{named.__module__}:{named.__qualname__}"


def recorded(place: str) -> str:
    """A place as a run's record tells it: without the folders of somebody's machine."""
    module, _, name = place.rpartition(":")
    return f"{Path(module).name}:{name}" if module.endswith(".py") else place


def _imported(place: str) -> Any:
    # An installed command does not look into the folder it is given in; python -m does.
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return pkgutil.resolve_name(place)
    finally:
        sys.path.remove(here)


def _from_file(file: Path, name: str) -> Any:
    if not file.is_file():
        raise OwnEditorError(f"there is no file {file}")
    known = f"own_editor_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(known, file)
    if spec is None or spec.loader is None:
        raise OwnEditorError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[known] = module  # dataclasses and pickle look it up
    spec.loader.exec_module(module)
    try:
        return getattr(module, name)
    except AttributeError:
        raise OwnEditorError(f"{file} has no {name}") from None


def _source_hash(found: Any) -> str:
    """The SHA-256 of the code as written; empty where it cannot be read (typed in)."""
    try:
        return hashlib.sha256(inspect.getsource(found).encode()).hexdigest()
    except (OSError, TypeError):
        return ""
