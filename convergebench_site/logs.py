"""Logs as structured lines, with request ids and without secrets."""

from __future__ import annotations

import logging.config
import re
from collections.abc import MutableMapping
from typing import Any

import structlog

SECRET_NAMES = re.compile(
    r"key|token|secret|password|authorization|cookie|credential", re.IGNORECASE
)
HIDDEN = "[hidden]"
#: Addresses that are secrets themselves: they allow acting for the owner.
SECRET_ADDRESS = re.compile(
    r"(/(?:submissions|upload|contribute|embargo|vote/(?:images|done))/)[\w-]{20,}"
)
#: Secrets in the wrong place: an API token, or a key in an address.
STRAY_SECRET = re.compile(
    r"cbt_[\w-]+|(?<=[?&;])([\w-]*(?:key|token|secret|password)[\w-]*=)[^&\s'\"]+", re.I
)
#: Loggers limited to warnings: the site logs one line per job, and rq would repeat it.
QUIET = (
    *("rq.worker", "PIL", "matplotlib", "google_genai", "httpx", "httpx2", "httpcore2"),
    *("axes", "django_structlog"),
)


def scrub(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide the values of secret-looking names in the event, at any depth."""
    for name in event:
        event[name] = HIDDEN if SECRET_NAMES.search(name) else _scrubbed(event[name])
    return event


def _scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: HIDDEN if SECRET_NAMES.search(str(key)) else _scrubbed(inner)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_scrubbed(inner) for inner in value]
    if not isinstance(value, str):
        return value
    value = SECRET_ADDRESS.sub(rf"\1{HIDDEN}", value)
    return STRAY_SECRET.sub(lambda match: f"{match[1] or ''}{HIDDEN}", value)


def configure(options: dict[str, Any]) -> None:
    """Route structlog and the standard library through the same processors."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        scrub,
    ]
    if options["json"]:
        renderer: Any = structlog.processors.JSONRenderer()
        shared.append(structlog.processors.format_exc_info)
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        )
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "structured": {
                    "()": structlog.stdlib.ProcessorFormatter,
                    "processors": [
                        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                        renderer,
                    ],
                    "foreign_pre_chain": shared,
                }
            },
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
            "root": {"handlers": ["stderr"], "level": options["level"]},
            "loggers": {
                "django.server": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
                **{name: {"level": "WARNING"} for name in QUIET},
            },
        }
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
