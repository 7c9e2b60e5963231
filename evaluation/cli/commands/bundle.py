"""`convergebench bundle RUN`: pack a run into one file for checking and upload."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pydantic import Field

from evaluation.audits.findings import Finding
from evaluation.bundle.folder import write_bundle
from evaluation.cli.printing import CommandError, Output, echo, echo_json, note
from evaluation.cli.scoring import new_scorer
from evaluation.content import catalog
from evaluation.play.finish import measure_audits
from evaluation.play.folder_scores import FolderScores
from evaluation.play.run_folder import RunFolder
from evaluation.play.run_scores import RunScores, read_scores

HELP = "pack a scored run into one file that others can check"
DESCRIPTION = """\
Packs a finished, scored run into one zip: suite, prompts, seeds, versions, hashes,
scores, standings and images, in the same format as a site's bundles. `convergebench
verify` recomputes every number in it, and a site accepts it under "Contribute a run".
The zip contains the run's secret, which is needed to check the seeds, but no key and no
endpoint address."""
EPILOG = """\
example:
  convergebench bundle jpeg-smoke --out jpeg-smoke.zip
  convergebench verify jpeg-smoke.zip"""


class BundleOutput(Output):
    """Output of `bundle --json`."""

    schema_name = "bundle"
    bundle: str
    bytes: int
    digest: str
    run: str
    suite: str
    whole_suite: bool = Field(description="True if the run covers all of a shipped suite.")
    chains: int
    images: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a scored run folder")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the zip file (default: RUN.zip)")
    parser.add_argument(
        "--no-images",
        action="store_true",
        help="leave out the images; sites do not accept such a bundle",
    )
    parser.add_argument("--json", action="store_true", help="print what was packed as JSON")


def run(args: argparse.Namespace) -> int:
    folder = RunFolder.open(args.run)
    out = args.out or args.run.resolve().with_suffix(".zip")
    if out.is_dir():
        raise CommandError(f"{out} is a folder; name a file with --out")
    document = pack_run(folder, out, images=not args.no_images)
    shipped = {(s.slug, s.content_hash) for s in catalog.suites()}
    is_whole_suite = (folder.suite.slug, folder.suite.content_hash) in shipped
    if args.json:
        echo_json(
            BundleOutput(
                bundle=str(out),
                bytes=out.stat().st_size,
                digest=document["digest"],
                run=str(args.run),
                suite=folder.suite.slug,
                whole_suite=is_whole_suite,
                chains=len(document["chains"]),
                images=document["images"],
            )
        )
        return 0
    if not is_whole_suite:
        note(
            f"this run covers a part of {folder.suite.slug}, or your own suite: others can "
            "verify it, but no board can list it"
        )
    echo(f"{out}: {out.stat().st_size:,} bytes, {len(document['chains'])} chains")
    echo(f"next: convergebench verify {out}")
    return 0


def pack_run(folder: RunFolder, out: Path, *, images: bool = True) -> dict[str, Any]:
    """Write the bundle of a run folder; return its document."""
    scores = existing_scores(folder)
    findings: dict[tuple[str, int], Finding] = {}
    if any(chain.audits for chain in folder.chains.values()):
        scorer = new_scorer(",".join(scores.metrics))
        store = FolderScores(folder, scorer)
        measure_audits(store, scorer)
        findings = store.audit_findings
    return write_bundle(folder, scores, out, findings=findings, images=images)


def existing_scores(folder: RunFolder) -> RunScores:
    """Return the run's scores. Raises CommandError if it is not scored."""
    scores = read_scores(folder)
    if scores is None:
        raise CommandError(
            f"{folder.path} is not scored yet: run convergebench score {folder.path}"
        )
    return scores
