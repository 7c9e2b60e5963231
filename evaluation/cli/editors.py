"""Choose the editor of a run: by name, by its location in your code, or by URL.

    jpeg                      a row of editing_models.json, or a registered editor
    my.module:MyEditor        your own, importable, also from the working directory
    path/to/file.py:MyEditor  your own, in a file

Your own editor is an Editor subclass (called with the options), an Editor instance, or any
callable that takes (image, prompt, seed) and returns a PIL image.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import inspect
import json
import os
import pkgutil
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from PIL import Image
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    TypeAdapter,
    ValidationError,
)

from evaluation.cli.printing import CommandError
from evaluation.content import catalog
from evaluation.content.suites import plain_slug
from evaluation.editors import EDITORS, editor_class, find_row, load_editor, load_row
from evaluation.editors.base import Answer, EditContext, Editor, Refused
from evaluation.editors.contracts import CONTRACTS
from evaluation.editors.failures import misconfigured
from evaluation.editors.reference import RuleEditor
from evaluation.errors import EditorError, first_error
from evaluation.images import EncodedImage

#: (image, prompt, seed) -> image
EditFunction = Callable[[Image.Image, str, int | None], Any]
#: Numbers such as "5." and ".5", which are not valid JSON.
NOT_JSON_NUMBER = re.compile(r"[+-]?([0-9]+\.|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
#: Editor arguments that only the harness sets.
HARNESS_ARGUMENTS = ("client", "deny", "group", "on_security_event", "transport")


@dataclass(frozen=True)
class ChosenEditor:
    """An editor that is ready to play, and its entry in the run's record.

    `kind` is the name of a registered editor or the location of your own. `price` is in USD per
    edit, None if unknown. If `is_own`, the editor is your code and starts without confirmation.
    """

    editor: Editor
    kind: str
    name: str
    slug: str
    options: Mapping[str, Any]
    price: float | None = None
    is_free: bool = False
    is_own: bool = False
    in_flight: int = 1
    calls_per_minute: int | None = None


# From the arguments of a command.


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the editor: registered, your own, or an endpoint."""
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument(
        "--editor",
        metavar="NAME",
        help="a name from `convergebench list editors`, or your own: my.module:MyEditor, "
        "file.py:function",
    )
    choice.add_argument("--models", metavar="NAMES", help="several names, separated by commas")
    choice.add_argument("--endpoint", metavar="URL", help="base URL of an API, or the full address")
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that set up an editor or an endpoint."""
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the editor or endpoint; may be repeated",
    )
    parser.add_argument(
        "--contract",
        choices=list(CONTRACTS),
        default="openai-edits",
        help="the endpoint's contract, its API format (default: openai-edits)",
    )
    parser.add_argument(
        "--key-env", metavar="NAME", help="the environment variable with the endpoint's key"
    )
    parser.add_argument(
        "--allow-local",
        action="store_true",
        help="allow http endpoints on this machine or the local network",
    )


def chosen_editors(args: argparse.Namespace) -> list[ChosenEditor]:
    """Return the editors that the arguments name, in the order given."""
    if args.endpoint:
        return [_endpoint(args)]
    options = _options(args.option)
    if args.editor:
        return [find_editor(args.editor, options)]
    names = list(dict.fromkeys(name.strip() for name in args.models.split(",") if name.strip()))
    if not names:
        raise CommandError("--models is empty: name at least one model")
    return [find_editor(name, options) for name in names]


def _options(pairs: list[str]) -> dict[str, Any]:
    """Parse each NAME=VALUE. A value that is neither a number nor JSON is text."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"--option {pair!r} is not NAME=VALUE")
        try:
            options[name] = float(value) if NOT_JSON_NUMBER.fullmatch(value) else json.loads(value)
        except ValueError:
            options[name] = value
    return options


def endpoint_options(args: argparse.Namespace, url: str) -> dict[str, Any]:
    """Return the options of an endpoint. Raises CommandError if its key is not set."""
    key = os.environ.get(args.key_env, "") if args.key_env else ""
    if args.key_env and not key:
        raise CommandError(f"the environment variable {args.key_env} is not set")
    return {
        "url": url,
        "contract": args.contract,
        **_options(args.option),
        "api_key": key,
        "allow_local": args.allow_local,
    }


def _endpoint(args: argparse.Namespace) -> ChosenEditor:
    options = endpoint_options(args, args.endpoint)
    with _named_in_errors("the endpoint"):
        editor = load_editor("endpoint", **options)
    name = urlsplit(args.endpoint).netloc.replace(":", "-") or "endpoint"
    recorded = {k: v for k, v in options.items() if k not in ("api_key", "allow_local")}
    return ChosenEditor(editor, "endpoint", name, name, recorded, is_free=args.allow_local)


# By name.


def find_editor(name: str, options: Mapping[str, Any]) -> ChosenEditor:
    """Make the editor called `name`. Raises CommandError with the reason."""
    if ":" in name:
        return own_editor(load_own_code(name), options, name)
    rows = catalog.editing_models()
    row: dict[str, Any] = {}
    try:
        row = dict(find_row(rows, name))
    except EditorError:
        if name not in EDITORS:
            raise _unknown(name) from None
        # If exactly one model uses this editor with these options, use that model's name and price.
        equal = [r for r in rows if r["editor"] == name and (r.get("options") or {}) == options]
        row = dict(equal[0], slug=name) if len(equal) == 1 else {}
    kind = row.get("editor", name)
    if factory := editor_class(kind):
        check_options(name, factory, options)
    options = {**(row.get("options") or {}), **options}
    with _named_in_errors(f"the editor {name}"):
        editor = load_row(row | {"options": options}) if row else load_editor(name, **options)
    if missing := editor.missing():
        raise CommandError(f"{name} cannot run here: {'; '.join(missing)}")
    price = options.get("price", row.get("price_per_edit"))
    return ChosenEditor(
        editor,
        kind,
        name=row.get("name", name),
        slug=row.get("slug", name),
        options={k: v for k, v in options.items() if k != "api_key"},
        price=None if price is None else float(price),
        # An editor on this machine has no price per edit.
        is_free=editor.queue == "gpu" or isinstance(editor, RuleEditor),
        in_flight=int(row.get("max_in_flight") or 1),
        calls_per_minute=row.get("calls_per_minute"),
    )


def find_factory(name: str) -> tuple[Any, dict[str, Any]]:
    """Return an editor's class or function, and the options preset in editing_models.json."""
    if ":" in name:
        return load_own_code(name), {}
    try:
        row: Mapping[str, Any] = find_row(catalog.editing_models(), name)
    except EditorError:
        row = {"editor": name}
    factory = editor_class(row["editor"])
    if factory is None:
        raise _unknown(name)
    return factory, dict(row.get("options") or {})


def _unknown(name: str) -> CommandError:
    names = [*EDITORS, *(row["slug"] for row in catalog.editing_models())]
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = " or ".join(close)
    hint = f"did you mean {hint}?" if hint else "`convergebench list editors` lists all"
    return CommandError(f"there is no editor called {name!r}; {hint}")


@contextmanager
def _named_in_errors(name: str) -> Iterator[None]:
    """Turn the TypeError or ValueError of a wrong argument into a CommandError."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error).partition("__init__() ")[2] or str(error)
        raise CommandError(f"{name} {message}; see --option") from None


# Your own editor.


def own_editor(code: Any, options: Mapping[str, Any], location: str = "") -> ChosenEditor:
    """Make an editor from a class, an object or a function.

    A class is called with the options.
    """
    location = location or _location(code)
    editor = OwnEditor(_as_editor(code, options, location))
    if missing := editor.missing():
        raise CommandError(f"{location} cannot run here: {'; '.join(missing)}")
    module, _, name = location.rpartition(":")
    # The run's record must not reveal the folders of a machine.
    kind = f"{Path(module).name}:{name}" if module.endswith(".py") else location
    slug = plain_slug(name, 80) or "own"
    return ChosenEditor(editor, kind, name, slug, dict(options), is_own=True)


@dataclass(eq=False)
class OwnEditor(Editor):
    """A wrapper of your editor whose unexpected exceptions pause the run."""

    inner: Editor

    def send(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        with _pause_on_errors(self.inner):
            return self.inner.send(image, prompt, seed, context)

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        with _pause_on_errors(self.inner):
            return self.inner.edit(image, prompt, seed)

    def missing(self) -> list[str]:
        return self.inner.missing()

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def close(self) -> None:
        self.inner.close()


@contextmanager
def _pause_on_errors(editor: Editor) -> Iterator[None]:
    try:
        yield
    except (Refused, EditorError):
        raise
    # User code runs here and may raise anything.
    except Exception as error:
        raise misconfigured(f"{_name(editor)}: {type(error).__name__}: {error}") from error


def _name(editor: Editor) -> str:
    return str(editor.describe().get("function") or type(editor).__name__)


@dataclass(eq=False)
class FunctionEditor(Editor):
    """An editor that calls any function."""

    function: EditFunction
    about: Mapping[str, Any] = field(default_factory=dict)

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        started = time.perf_counter()
        answer = self.function(image.decoded, prompt, seed)
        seconds = time.perf_counter() - started
        if isinstance(answer, Answer):
            return answer
        if isinstance(answer, Image.Image):
            answer = EncodedImage.from_image(answer.convert("RGB"))
        if not isinstance(answer, EncodedImage):
            raise misconfigured(f"{_name(self)} returned no PIL image: {answer!r:.80}")
        return Answer(answer, seconds)

    def describe(self) -> dict[str, Any]:
        return dict(self.about)


def load_own_code(location: str) -> Any:
    """Return the class, function or object at `location`. Raises CommandError."""
    module, _, name = location.rpartition(":")
    try:
        return _from_file(Path(module), name) if module.endswith(".py") else _imported(location)
    except CommandError:
        raise
    # User code runs here and may raise anything.
    except Exception as error:
        raise CommandError(f"{location}: {type(error).__name__}: {error}") from error


def _as_editor(code: Any, options: Mapping[str, Any], location: str) -> Editor:
    if isinstance(code, Editor):
        if options:
            raise CommandError(f"{location} is an instance, so it takes no options")
        return code
    about = {"function": location, "source_sha256": _source_hash(code)}
    if inspect.isclass(code):
        check_options(location, code, options)
        with _named_in_errors(location):
            code = code(**options)
        if isinstance(code, Editor):
            return code
    elif options:
        code = partial(code, **options)
    if not callable(code):
        raise CommandError(
            f"{location} is neither an Editor nor a function of (image, prompt, seed)"
        )
    return FunctionEditor(code, about)


def _location(code: Any) -> str:
    named = code if hasattr(code, "__qualname__") else type(code)
    return f"{named.__module__}:{named.__qualname__}"


def _imported(location: str) -> Any:
    # An installed command does not import from the working directory; python -m does.
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return pkgutil.resolve_name(location)
    finally:
        sys.path.remove(here)


def _from_file(file: Path, name: str) -> Any:
    if not file.is_file():
        raise CommandError(f"there is no file {file}")
    module_name = f"own_editor_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise CommandError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickle look it up
    spec.loader.exec_module(module)
    try:
        return getattr(module, name)
    except AttributeError:
        raise CommandError(f"{file} has no {name}") from None


def _source_hash(code: Any) -> str:
    """Return the SHA-256 of the source code; empty if the source is not available."""
    try:
        return hashlib.sha256(inspect.getsource(code).encode()).hexdigest()
    except (OSError, TypeError):
        return ""


# Options: the parameters of a class or function, with their types as pydantic reads them.


class EditorOption(BaseModel):
    """One option of an editor."""

    name: str
    type: str = Field(description="JSON Schema type; empty if any type is valid.")
    required: bool
    default: Any
    least: float | None
    most: float | None


def editor_options(factory: Any, preset: Mapping[str, Any]) -> list[EditorOption]:
    """Return the options that a class or function takes, with the values in `preset`."""
    options = []
    for name, (parameter, adapter) in _parameters(factory).items():
        schema = _schema(adapter)
        required = parameter.default is parameter.empty
        options.append(
            EditorOption(
                name=name,
                type=schema.get("type") or ("choice" if "enum" in schema else ""),
                required=required and name not in preset,
                default=preset.get(name, None if required else _as_json(parameter.default)),
                least=schema.get("minimum", schema.get("exclusiveMinimum")),
                most=schema.get("maximum", schema.get("exclusiveMaximum")),
            )
        )
    return options


def check_options(name: str, factory: Any, options: Mapping[str, Any]) -> None:
    """Raise CommandError naming the first option that is unknown or out of range."""
    parameters = _parameters(factory)
    for option, value in options.items():
        if option in parameters:
            adapter = parameters[option][1]
            try:
                if adapter:
                    adapter.validate_python(value)
            except ValidationError as error:
                raise CommandError(
                    f"the option {option} of {name} {first_error(error)}, not {value!r}"
                ) from None
        elif option not in HARNESS_ARGUMENTS and not _takes_any(factory):
            names = ", ".join(parameters) or "none"
            raise CommandError(f"{name} has no option {option!r}; its options are: {names}")


def _takes_any(factory: Any) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in _signature(factory))


def _signature(factory: Any) -> list[inspect.Parameter]:
    """Return the parameters of a class or function; `**options` if it has no signature."""
    try:
        return list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)]


def _parameters(factory: Any) -> dict[str, tuple[inspect.Parameter, TypeAdapter[Any] | None]]:
    hints: dict[str, Any] = {}
    # A class has type hints on its constructor and on its fields. Hints with unresolvable names are
    # ignored.
    for annotated in (factory.__init__, factory) if inspect.isclass(factory) else (factory,):
        with suppress(NameError, TypeError):
            hints |= get_type_hints(annotated, include_extras=True)
    return {
        parameter.name: (parameter, _adapter(hints.get(parameter.name, Any)))
        for parameter in _signature(factory)
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and parameter.name not in HARNESS_ARGUMENTS
    }


def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    """Return the validator of a type; None if pydantic cannot validate it."""
    try:
        return TypeAdapter[Any](hint, config=ConfigDict(arbitrary_types_allowed=True))
    except (PydanticSchemaGenerationError, TypeError):
        return None


def _schema(adapter: TypeAdapter[Any] | None) -> dict[str, Any]:
    try:
        schema = adapter.json_schema() if adapter else {}
    except PydanticInvalidForJsonSchema:
        return {}
    alternatives = schema.get("anyOf", [schema])
    return next((part for part in alternatives if part.get("type") != "null"), schema)


def _as_json(default: Any) -> Any:
    """Return a default as JSON; None if it is not serialisable."""
    try:
        return json.loads(json.dumps(default, allow_nan=False))
    except (TypeError, ValueError):
        return None
