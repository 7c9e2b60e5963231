"""Build the shipped suites from their drafts: python -m tools.suites."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from evaluation.content import catalog, sources
from evaluation.content.suite_builder import (
    Candidate,
    Draft,
    build,
    facts,
    from_facts,
    refusals,
    shipped_drafts,
    warnings,
)
from evaluation.content.suites import Suite, SuiteError
from evaluation.images import EncodedImage


def shipped(draft: Draft) -> Suite:
    """Build a shipped suite from the active content of the catalog."""
    images = [
        image
        for image in catalog.source_images()
        if image.status == "active" and draft.accepts_image(image)
    ]
    pairs = [pair.pair for pair in catalog.edit_pairs() if pair.status == "active"]
    return build(draft, (_candidate(image, draft.size) for image in images), pairs)


def _candidate(source: catalog.SourceImage, size: int) -> Candidate:
    image = EncodedImage.from_bytes(sources.original(source.origin, source.sha256)).decoded
    places = sources.prepare_annotations(source.annotations, image.size, size)
    return from_facts(source, facts(sources.prepare(image, size)), places)


def suite_path(suite: Suite) -> Path:
    return catalog.folder() / "suites" / f"{suite.key}.json"


def write(suite: Suite, overwrite: bool = False) -> Path:
    """Write the suite's file. Raises SuiteError if a frozen version would change."""
    path = suite_path(suite)
    if path.is_file() and not overwrite and Suite.read(path).content_hash != suite.content_hash:
        raise SuiteError(
            f"{path.name} is frozen and would change: give the draft a new version, or use "
            "--overwrite if the suite was never played"
        )
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(suite.to_dict(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the suites given on the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.suites", description=__doc__)
    parser.add_argument("suites", nargs="*", help="slugs of suites (default: all)")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace frozen suites that differ"
    )
    options = parser.parse_args(arguments)
    stale = 0
    for draft in shipped_drafts():
        if options.suites and draft.slug not in options.suites:
            continue
        suite = shipped(draft)
        if reasons := refusals(suite, draft.narrow):
            parser.error(f"{suite.key} cannot be frozen: {'; '.join(reasons[:5])}")
        path = suite_path(suite)
        same = path.is_file() and Suite.read(path).content_hash == suite.content_hash
        if not same and not options.check:
            try:
                write(suite, options.overwrite)
            except SuiteError as error:
                parser.error(str(error))
        stale += not same
        state = "unchanged" if same else "differs" if options.check else "written"
        sys.stdout.write(
            f"{suite.slug} v{suite.version}: {state}, {len(suite.images)} images, "
            f"{len(suite.cases)} cases, {suite.edits} edits, {suite.content_hash[:12]}\n"
        )
        for warning in warnings(suite):
            sys.stderr.write(f"{suite.key} is one-sided: {warning}\n")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
