"""`convergebench bundle RUN`: pack a run into one file for checking and upload."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pydantic import Field

from evaluation.audits.findings import Finding
from evaluation.bundle.folder import write_bundle
from evaluation.cli.printing import CommandError, Output, note, say, say_json
from evaluation.cli.scoring import new_scorer
from evaluation.content import catalog
from evaluation.play.finish import measure_audits
from evaluation.play.folder_scores import FolderScores
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores, read_scores

HELP = "pack a scored run into one file that others can check"
DESCRIPTION = """\
Packs a run that was played to its end and scored into one zip: suite, prompts, seeds,
versions, hashes, scores, standings and images, in the format of the site's own
bundles. `convergebench verify` recomputes every number of it, and a site takes it under
"Contribute a run". The run's secret is in it, since its seeds are checked by it; no key and
no address of an endpoint is."""
EPILOG = """\
example:
  convergebench bundle jpeg-smoke --out jpeg-smoke.zip
  convergebench verify jpeg-smoke.zip"""


class BundleOutput(Output):
    """`bundle`."""

    schema_name = "bundle"
    bundle: str
    bytes: int
    digest: str
    run: str
    suite: str
    whole_suite: bool = Field(description="Whether it is a suite as shipped, not a part of one.")
    chains: int
    images: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder made by `run`, scored")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the zip file (RUN.zip)")
    parser.add_argument(
        "--no-images", action="store_true", help="numbers only; sites do not accept such a bundle"
    )
    parser.add_argument("--json", action="store_true", help="print what was packed as JSON")


def run(args: argparse.Namespace) -> int:
    folder = RunFolder.open(args.run)
    out = args.out or args.run.resolve().with_suffix(".zip")
    if out.is_dir():
        raise CommandError(f"{out} is a folder; name a file with --out")
    document = packed(folder, out, images=not args.no_images)
    shipped = {(s.slug, s.content_hash) for s in catalog.suites()}
    whole = (folder.suite.slug, folder.suite.content_hash) in shipped
    if args.json:
        say_json(
            BundleOutput(
                bundle=str(out),
                bytes=out.stat().st_size,
                digest=document["digest"],
                run=str(args.run),
                suite=folder.suite.slug,
                whole_suite=whole,
                chains=len(document["chains"]),
                images=document["images"],
            )
        )
        return 0
    if not whole:
        note(
            f"this run is of a part of {folder.suite.slug}, or of your own suite: others can "
            "verify it, but no board has a place for it"
        )
    say(f"{out}: {out.stat().st_size:,} bytes, {len(document['chains'])} chains")
    say(f"next: convergebench verify {out}")
    return 0


def packed(folder: RunFolder, out: Path, *, images: bool = True) -> dict[str, Any]:
    """Write the bundle of a run folder; return its document."""
    scores = scores_of(folder)
    findings: dict[tuple[str, int], Finding] = {}
    if any(chain.audits for chain in folder.chains.values()):
        scorer = new_scorer(",".join(scores.metrics))
        store = FolderScores(folder, scorer)
        measure_audits(store, scorer)
        findings = store.audit_findings
    return write_bundle(folder, scores, out, findings=findings, images=images)


def scores_of(folder: RunFolder) -> RunScores:
    """Return the scores in the folder. Raises CommandError if there are none."""
    scores = read_scores(folder)
    if scores is None:
        raise CommandError(
            f"{folder.path} is not scored yet: run convergebench score {folder.path}"
        )
    return scores
