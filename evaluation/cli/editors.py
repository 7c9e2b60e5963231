"""Choose the editor that plays: by name, by place in your code, or by address.

    jpeg                      a row of editing_models.json, or a registered editor
    my.module:MyEditor        importable, also from the working directory
    path/to/file.py:MyEditor  in a file

An editor of your own is an Editor's class (made with the options), an Editor, or anything that
can be called with (image, prompt, seed) and returns a PIL image.
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
from evaluation.editors.failures import configuration
from evaluation.editors.reference import RuleEditor
from evaluation.errors import EditorError, first_error
from evaluation.images import EncodedImage

#: (image, prompt, seed) -> image
EditFunction = Callable[[Image.Image, str, int | None], Any]
#: Numbers that begin or end with their point.
POINTED = re.compile(r"[+-]?([0-9]+\.|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
#: Arguments of editors that only the harness sets.
NOT_OPTIONS = ("client", "deny", "group", "on_security_event", "transport")


@dataclass(frozen=True)
class ChosenEditor:
    """An editor that is ready to play, and its entry in the run's record.

    `kind` is a registered editor or the place of your own; `price` is in USD per edit, None if
    it is unknown; `is_own` code needs no confirmation, since its author knows the cost.
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


# By the arguments of a command.


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the editor: registered, your own, or an endpoint."""
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument(
        "--editor",
        metavar="NAME",
        help="a name of `convergebench list editors`, or your own: my.module:MyEditor, "
        "file.py:function",
    )
    who.add_argument("--models", metavar="NAMES", help="several names, separated by commas")
    who.add_argument("--endpoint", metavar="URL", help="base URL of an API, or the full address")
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
        "--contract", choices=list(CONTRACTS), default="openai-edits", help="of an endpoint"
    )
    parser.add_argument(
        "--key-env", metavar="NAME", help="the environment variable with an endpoint's key"
    )
    parser.add_argument(
        "--allow-local",
        action="store_true",
        help="allow http endpoints on this machine or the local network",
    )


def chosen_editors(args: argparse.Namespace) -> list[ChosenEditor]:
    """Return the editors that these arguments name, in their order."""
    if args.endpoint:
        return [_endpoint(args)]
    options = _options(args.option)
    if args.editor:
        return [find_editor(args.editor, options)]
    names = list(dict.fromkeys(name.strip() for name in args.models.split(",") if name.strip()))
    if not names:
        raise CommandError("--models names no model")
    return [find_editor(name, options) for name in names]


def _options(pairs: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE; a value is a number or other JSON if it parses, else text."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"--option {pair!r} is not NAME=VALUE")
        try:
            # JSON knows no such numbers.
            options[name] = float(value) if POINTED.fullmatch(value) else json.loads(value)
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
        return own_editor(find_own(name), options, name)
    rows = catalog.editing_models()
    row: dict[str, Any] = {}
    try:
        row = dict(find_row(rows, name))
    except EditorError:
        if name not in EDITORS:
            raise _unknown(name) from None
        # A bare editor that equals one model has that model's name and price.
        same = [r for r in rows if r["editor"] == name and (r.get("options") or {}) == options]
        row = dict(same[0], slug=name) if len(same) == 1 else {}
    kind = row.get("editor", name)
    if made := editor_class(kind):
        check_options(name, made, options)
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


def find_made(name: str) -> tuple[Any, dict[str, Any]]:
    """Return the class or function of an editor, and the options of its row."""
    if ":" in name:
        return find_own(name), {}
    try:
        row: Mapping[str, Any] = find_row(catalog.editing_models(), name)
    except EditorError:
        row = {"editor": name}
    made = editor_class(row["editor"])
    if made is None:
        raise _unknown(name)
    return made, dict(row.get("options") or {})


def _unknown(name: str) -> CommandError:
    names = [*EDITORS, *(row["slug"] for row in catalog.editing_models())]
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = " or ".join(close)
    hint = f"did you mean {hint}?" if hint else "`convergebench list editors` lists all"
    return CommandError(f"there is no editor called {name!r}; {hint}")


@contextmanager
def _named_in_errors(name: str) -> Iterator[None]:
    """Turn the error of a wrong or missing argument into a message for people."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = str(error).partition("__init__() ")[2] or str(error)
        raise CommandError(f"{name} {message}; see --option") from None


# Of your own.


def own_editor(code: Any, options: Mapping[str, Any], place: str = "") -> ChosenEditor:
    """Make an editor from a class, an object or a function.

    A class is called with the options.
    """
    place = place or _place_of(code)
    editor = OwnEditor(_as_editor(code, options, place))
    if missing := editor.missing():
        raise CommandError(f"{place} cannot run here: {'; '.join(missing)}")
    module, _, name = place.rpartition(":")
    # The run's record must not reveal the folders of a machine.
    kind = f"{Path(module).name}:{name}" if module.endswith(".py") else place
    slug = plain_slug(name, 80) or "own"
    return ChosenEditor(editor, kind, name, slug, dict(options), is_own=True)


@dataclass(eq=False)
class OwnEditor(Editor):
    """Another editor; its unexpected exceptions pause the run."""

    inner: Editor

    def send(
        self,
        image: EncodedImage,
        prompt: str,
        seed: int | None = None,
        context: EditContext | None = None,
    ) -> Answer:
        with _pausing(self.inner):
            return self.inner.send(image, prompt, seed, context)

    def edit(self, image: EncodedImage, prompt: str, seed: int | None = None) -> Answer:
        with _pausing(self.inner):
            return self.inner.edit(image, prompt, seed)

    def missing(self) -> list[str]:
        return self.inner.missing()

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def close(self) -> None:
        self.inner.close()


@contextmanager
def _pausing(editor: Editor) -> Iterator[None]:
    try:
        yield
    except (Refused, EditorError):
        raise
    # Foreign code runs here, and may raise anything.
    except Exception as error:
        raise configuration(f"{_name(editor)}: {type(error).__name__}: {error}") from error


def _name(editor: Editor) -> str:
    return str(editor.describe().get("function") or type(editor).__name__)


@dataclass(eq=False)
class FunctionEditor(Editor):
    """Any function as an editor."""

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
            raise configuration(f"{_name(self)} returned no PIL image: {answer!r:.80}")
        return Answer(answer, seconds)

    def describe(self) -> dict[str, Any]:
        return dict(self.about)


def find_own(place: str) -> Any:
    """Return the class, function or object at `place`. Raises CommandError."""
    module, _, name = place.rpartition(":")
    try:
        return _from_file(Path(module), name) if module.endswith(".py") else _imported(place)
    except CommandError:
        raise
    # Foreign code runs here, and may raise anything.
    except Exception as error:
        raise CommandError(f"{place}: {type(error).__name__}: {error}") from error


def _as_editor(code: Any, options: Mapping[str, Any], place: str) -> Editor:
    if isinstance(code, Editor):
        if options:
            raise CommandError(f"{place} is an instance, so it takes no options")
        return code
    about = {"function": place, "source_sha256": _source_hash(code)}
    if inspect.isclass(code):
        check_options(place, code, options)
        with _named_in_errors(place):
            code = code(**options)
        if isinstance(code, Editor):
            return code
    elif options:
        code = partial(code, **options)
    if not callable(code):
        raise CommandError(f"{place} is neither an Editor nor a function of (image, prompt, seed)")
    return FunctionEditor(code, about)


def _place_of(code: Any) -> str:
    named = code if hasattr(code, "__qualname__") else type(code)
    return f"{named.__module__}:{named.__qualname__}"


def _imported(place: str) -> Any:
    # An installed command does not import from the working directory; python -m does.
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return pkgutil.resolve_name(place)
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
    """Return the SHA-256 of the source code; empty if it has no file."""
    try:
        return hashlib.sha256(inspect.getsource(code).encode()).hexdigest()
    except (OSError, TypeError):
        return ""


# Options: the parameters of a class or function, with their types as pydantic reads them.


class EditorOption(BaseModel):
    """One option of an editor."""

    name: str
    type: str = Field(description="As JSON Schema has it; empty: any.")
    required: bool
    default: Any
    least: float | None
    most: float | None


def options_of(made: Any, given: Mapping[str, Any]) -> list[EditorOption]:
    """Return the options that a class or function takes; `given` are set by its row."""
    options = []
    for name, (parameter, adapter) in _parameters(made).items():
        schema = _schema(adapter)
        required = parameter.default is parameter.empty
        options.append(
            EditorOption(
                name=name,
                type=schema.get("type") or ("choice" if "enum" in schema else ""),
                required=required and name not in given,
                default=given.get(name, None if required else _as_json(parameter.default)),
                least=schema.get("minimum", schema.get("exclusiveMinimum")),
                most=schema.get("maximum", schema.get("exclusiveMaximum")),
            )
        )
    return options


def check_options(name: str, made: Any, options: Mapping[str, Any]) -> None:
    """Raise CommandError naming the first option that is unknown or out of range."""
    parameters = _parameters(made)
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
        elif option not in NOT_OPTIONS and not _takes_any(made):
            names = ", ".join(parameters) or "none"
            raise CommandError(f"{name} has no option {option!r}; there are: {names}")


def _takes_any(made: Any) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in _signature(made))


def _signature(made: Any) -> list[inspect.Parameter]:
    """Return the parameters of a class or function; of one in C, that it takes any."""
    try:
        return list(inspect.signature(made).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)]


def _parameters(made: Any) -> dict[str, tuple[inspect.Parameter, TypeAdapter[Any] | None]]:
    hints: dict[str, Any] = {}
    # A class by its constructor and its fields; unresolvable names are ignored.
    for annotated in (made.__init__, made) if inspect.isclass(made) else (made,):
        with suppress(NameError, TypeError):
            hints |= get_type_hints(annotated, include_extras=True)
    return {
        parameter.name: (parameter, _adapter(hints.get(parameter.name, Any)))
        for parameter in _signature(made)
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and parameter.name not in NOT_OPTIONS
    }


def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    """Return the validator of a type; None if pydantic has none."""
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
    """Return a default as JSON; None if it has no such form."""
    try:
        return json.loads(json.dumps(default, allow_nan=False))
    except (TypeError, ValueError):
        return None
