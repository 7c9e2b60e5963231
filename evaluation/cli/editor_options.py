"""The options of an editor: what they are called, what they may be, what they are if not given."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from evaluation.errors import UserFacingError

#: What the harness gives an editor itself; nobody can type it.
NOT_TYPED = ("client", "deny", "group", "on_security_event", "transport")


class OptionError(UserFacingError):
    """An option that the editor does not take, or not with this value."""


@dataclass(frozen=True)
class Option:
    """One option; `least` and `most` are None where there is no limit."""

    name: str
    type: str
    required: bool
    default: Any = None
    least: float | None = None
    most: float | None = None

    @property
    def range(self) -> str:
        if self.least is None and self.most is None:
            return ""
        least, most = self.least, self.most
        return f"{'' if least is None else f'{least:g}'} … {'' if most is None else f'{most:g}'}"


def options_of(made: Any) -> list[Option]:
    """The options that a class or function takes, in its order."""
    return [
        Option(
            name,
            _words(hint),
            parameter.default is parameter.empty,
            _plain(parameter.default),
            *_limits(hint),
        )
        for name, (parameter, hint) in _parameters(made).items()
    ]


def check_options(name: str, made: Any, options: Mapping[str, Any]) -> None:
    """OptionError names the first option that is unknown or out of range."""
    known = _parameters(made)
    for option, value in options.items():
        if option not in known:
            if option in NOT_TYPED or _takes_any(made):
                continue
            there = ", ".join(known) or "none"
            raise OptionError(f"{name} has no option {option!r}; there are: {there}")
        _check(f"the option {option} of {name}", known[option][1], value)


def _check(what: str, hint: Any, value: Any) -> None:
    try:
        adapter = TypeAdapter[Any](hint, config=ConfigDict(arbitrary_types_allowed=True))
    except (PydanticSchemaGenerationError, TypeError):  # not a type that can be typed in
        return
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        said = said.replace("Input should be", "should be")
        raise OptionError(f"{what} {said}, not {value!r}") from None


def _parameters(made: Any) -> dict[str, tuple[inspect.Parameter, Any]]:
    try:
        parameters = inspect.signature(made).parameters
    except (TypeError, ValueError):
        return {}
    hints: dict[str, Any] = {}
    # A class by what makes it, and by its fields; names that cannot be found here say nothing.
    for told in (made.__init__, made) if inspect.isclass(made) else (made,):
        with suppress(NameError, TypeError):
            hints |= get_type_hints(told, include_extras=True)
    return {
        name: (parameter, hints.get(name, Any))
        for name, parameter in parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and name not in NOT_TYPED
    }


def _takes_any(made: Any) -> bool:
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _limits(hint: Any) -> tuple[float | None, float | None]:
    least = most = None
    for limit in _annotations(hint):
        for name in ("ge", "gt"):
            least = getattr(limit, name, None) if least is None else least
        for name in ("le", "lt"):
            most = getattr(limit, name, None) if most is None else most
    return least, most


def _annotations(hint: Any) -> Iterable[Any]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _words(hint: Any) -> str:
    """A type as people read it."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if hint is Any:
        return ""
    text = hint.__name__ if inspect.isclass(hint) and not get_args(hint) else str(hint)
    return text.replace("typing.", "").replace("collections.abc.", "").replace(" | None", "")


def _plain(default: Any) -> Any:
    """A default as JSON can tell it."""
    if default is None or isinstance(default, bool | int | str):
        return default
    if isinstance(default, float):
        return default if math.isfinite(default) else str(default)
    if isinstance(default, tuple | list):
        return list(default)
    return None
