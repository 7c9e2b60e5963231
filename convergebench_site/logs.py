"""Structured logs, with request ids and without secrets."""

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
#: Tokens of secret links, tickets and sessions: `secrets.token_urlsafe` of 16, 24 or 32 bytes.
#: They are hidden anywhere in a log line, such as in URLs and tracebacks.
TOKEN = re.compile(
    r"(?:(?<![\w-])|(?<=%[\dA-F]{2}))(?=[\w-]*[A-Z])(?=[\w-]*[a-z])"
    r"(?:[\w-]{22}|[\w-]{32}|[\w-]{43})(?![\w-])",
    re.ASCII,
)
#: An API token, or a secret in a query string.
STRAY_SECRET = re.compile(
    r"cbt_[\w-]+|(?<=[?&;])([\w-]*(?:key|token|secret|password)[\w-]*=)[^&\s'\"]+", re.I
)
#: Loggers limited to warnings: RQ's among them, because the site logs a line for each job itself.
QUIET = (
    *("rq.worker", "PIL", "matplotlib", "google_genai", "httpx", "httpx2", "httpcore2"),
    *("axes", "django_structlog"),
)


def scrub(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide secrets in the event: values with secret-looking names, and tokens in texts."""
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
    value = STRAY_SECRET.sub(lambda match: f"{match[1] or ''}{HIDDEN}", value)
    return TOKEN.sub(HIDDEN, value)


def configure(options: dict[str, Any]) -> None:
    """Route structlog and the standard library through the same processors."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,  # before `scrub`, because tracebacks quote values
        scrub,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if options["json"]
        else structlog.dev.ConsoleRenderer(colors=False)
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
