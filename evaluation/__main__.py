"""`convergebench`: the benchmark from the shell."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys

from evaluation import __version__
from evaluation.errors import UserFacingError
from evaluation.play.store import Paused

COMMANDS = (
    "list",
    "weights",
    "run",
    "score",
    "report",
    "experiment",
    "merge",
    "check-endpoint",
    "bundle",
    "verify",
    "schema",
    "site",
)
OURS = ("evaluation", "leaderboard", "convergebench_site")
DESCRIPTION = """\
How many round trips does an image last?

A round trip asks an image-editing model for an edit and then for its inverse:
add a hat, remove the hat. convergebench plays round trips, compares the
restored images with the source, and reports half-lives."""
EPILOG = """\
a first run, without a key or a GPU:
  convergebench weights                              fetch the networks of the metrics, once
  convergebench run --editor jpeg --suite smoke      make the edits, score, report: in jpeg-smoke/
the same step by step:
  convergebench run --play-only --editor jpeg --suite smoke
  convergebench score jpeg-smoke                     score every trip
  convergebench report jpeg-smoke                    curves, half-lives, strips: one HTML page

to score images that you already have:
  convergebench score FOLDER                         I0_source.png, I1_forward.png, ...

to share a run, or check one that was published:
  convergebench bundle RUN                           one file, to upload to a site
  convergebench verify BUNDLE                        recompute its numbers, line by line

exit codes: 0 done; 1 failed, for the reason printed; 2 wrong arguments;
3 paused; 130 interrupted. After 3 and 130 the same command continues."""


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands; with `only`, import just that command."""
    top = argparse.ArgumentParser(
        prog="convergebench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"convergebench {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        if only not in (None, name):
            continue
        module = importlib.import_module(f"evaluation.cli.commands.{name.replace('-', '_')}")
        described = getattr(module, "DESCRIPTION", None) or module.HELP
        sub = subparsers.add_parser(
            name,
            help=module.HELP,
            description=described,
            epilog=getattr(module, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run_command=module.run)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    only = arguments[0] if arguments and arguments[0] in COMMANDS else None
    args = parser(only).parse_args(arguments)
    try:
        code: int = args.run_command(args)
        sys.stdout.flush()
    except Paused as pause:
        sys.stderr.write(f"convergebench: paused. {pause}\n")
        return 3
    except BrokenPipeError:
        # In `convergebench list editors | head` the reader is gone: Python must not flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        sys.stderr.write(f"convergebench: {_os_message(error)}\n")
        return 1
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        sys.stderr.write(
            f"convergebench: the Python package {error.name} is needed, but not installed: "
            "pip install 'convergebench[worker]'\n"
        )
        return 1
    except UserFacingError as error:
        sys.stderr.write(f"convergebench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("convergebench: interrupted; run the same command again to continue\n")
        return 130
    return code


def _os_message(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" for {error.filename}" if error.filename else ""
        return f"the disk is full{where}; free some space, then run the same command again"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
