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

COMMANDS = {
    "editors": "evaluation.cli.commands.editors",
    "suites": "evaluation.cli.commands.suites",
    "weights": "evaluation.cli.commands.weights",
    "play": "evaluation.cli.commands.play",
    "score": "evaluation.cli.commands.score",
    "report": "evaluation.cli.commands.report",
    "run": "evaluation.cli.commands.run",
    "experiment": "evaluation.cli.commands.experiment",
    "merge": "evaluation.cli.commands.merge",
    "score-chain": "evaluation.cli.commands.score_chain",
    "check-endpoint": "evaluation.cli.commands.check_endpoint",
    "audit": "evaluation.cli.commands.audit",
    "bundle": "evaluation.cli.commands.exchange.bundle",
    "verify": "evaluation.cli.commands.exchange.verify",
    "import-scores": "evaluation.cli.commands.exchange.import_scores",
    "schema": "evaluation.cli.commands.exchange.schema",
    "site": "evaluation.cli.commands.site",
}
OURS = ("evaluation", "leaderboard", "convergebench_site")
DESCRIPTION = """\
How many round trips does a picture last?

A round trip asks an image-editing model for an edit and then for its inverse:
add a hat, remove the hat. convergebench plays round trips, scores what comes
back against the source, and reports half-lives."""
EPILOG = """\
a first run, with no key, no GPU and no download but LPIPS' weights:
  convergebench weights                              fetch what the metrics need, once
  convergebench play --editor jpeg --suite smoke     play it into the folder jpeg-smoke
  convergebench score jpeg-smoke                     score every trip
  convergebench report jpeg-smoke                    curves, half-lives, strips: one HTML page
or all of it at once:
  convergebench run --editor jpeg --suite smoke

pictures that you have already:
  convergebench score-chain FOLDER                   I0_source.png, I1_forward.png, ...

a run to hand on, or one that somebody else published:
  convergebench bundle RUN                           one file, which a site takes
  convergebench verify BUNDLE                        recompute its numbers, line by line

exit codes: 0 done; 1 it did not work, the line says why; 2 wrong arguments;
3 paused, the same command goes on; 130 interrupted, the same command goes on."""


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of every command, or of one: the others' modules need not load then."""
    top = argparse.ArgumentParser(
        prog="convergebench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"convergebench {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, path in COMMANDS.items():
        if only not in (None, name):
            continue
        module = importlib.import_module(path)
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
    """Run a command; returns its exit code."""
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
        # `convergebench editors | head`: nobody reads on. Keep Python from flushing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        sys.stderr.write(f"convergebench: {_in_words(error)}\n")
        return 1
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        sys.stderr.write(
            f"convergebench: this needs the Python package {error.name}, which is not installed: "
            "pip install 'convergebench[worker]'\n"
        )
        return 1
    except UserFacingError as error:
        sys.stderr.write(f"convergebench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("convergebench: interrupted; the same command goes on\n")
        return 130
    return code


def _in_words(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" for {error.filename}" if error.filename else ""
        return f"the disk is full{where}; free some space, then the same command goes on"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
