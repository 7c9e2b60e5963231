"""Write the bundle of a run folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.standings import chain_numbers, standings
from evaluation.audits.findings import MEDIANS, Finding, judge_audits
from evaluation.audits.plan import plan
from evaluation.bundle.document import BundleError
from evaluation.bundle.write import (
    PRIVATE_FACTS,
    as_json,
    measured_chains,
    text_or_none,
    trip_fields,
    without_private,
    write,
)
from evaluation.content import catalog
from evaluation.content.shapes import BACKWARD, FORWARD
from evaluation.content.suites import plain_slug
from evaluation.images import EncodedImage
from evaluation.metrics import scored_metrics
from evaluation.play.run_folder import PlayedAudit, PlayedChain, PlayedEdit, RunFolder
from evaluation.play.run_scores import ChainScores, RunScores
from evaluation.records import (
    AuditRecord,
    CalibrationRecord,
    ChainRecord,
    ModelRecord,
    Played,
    RunRecord,
    SourceRecord,
    StandingRecord,
    TripMeasures,
    VoteRecord,
)
from evaluation.run_secret import commitment

#: The fields of a model that come from the catalog; empty for other models.
CATALOG_TEXTS = ("provider", "organisation", "licence", "homepage", "paper_url", "code_url")
OUTCOMES = {"answered", "refused", "failed"}


def write_bundle(
    folder: RunFolder,
    scores: RunScores,
    out: Path,
    *,
    findings: Mapping[tuple[str, int], Finding] | None = None,
    images: bool = True,
) -> dict[str, Any]:
    """Write the bundle of a complete, scored run; return its document.

    `findings` are the results of the run's audits (extra requests that test for cheating), by chain
    and trip. Raises BundleError if the run is not completely played or scored.
    """
    return write(FolderSource(folder, scores, findings or {}), out, images=images)


class FolderSource:
    """A scored run folder as a RunSource. Raises BundleError if the run is incomplete."""

    def __init__(
        self,
        folder: RunFolder,
        scores: RunScores,
        findings: Mapping[tuple[str, int], Finding],
    ) -> None:
        if not folder.complete:
            left = sum(not chain.outcome for chain in folder.chains.values())
            raise BundleError(
                f"{folder.path} is incomplete: {left} of {len(folder.chains)} chains are still "
                "to be played"
            )
        if scores.method != METHOD_VERSION:
            raise BundleError(
                f"{folder.path} was scored by method {scores.method}, but the current method is "
                f"{METHOD_VERSION}: run convergebench score {folder.path}"
            )
        self.folder, self.scores, self.findings = folder, scores, findings
        self.calls = _calls(folder)

    def suite(self) -> Mapping[str, Any]:
        return self.folder.suite.to_dict()

    def model(self) -> ModelRecord:
        header = self.folder.header
        rows = {row["slug"]: row for row in catalog.editing_models()}
        row = rows.get(header.slug, {})
        texts = {name: str(row.get(name) or "") for name in CATALOG_TEXTS}
        fields = {
            "slug": plain_slug(header.slug or self.folder.name, 80) or "own",
            "name": self.folder.name[:120] or "own",
            "editor": header.editor[:60],
            "options": without_private(header.options),
            "access": str(row.get("access") or "local"),
            "open_weights": row.get("open_weights"),
            "price_per_edit": text_or_none(row.get("price_per_edit")),
            "is_reference": bool(row.get("is_reference", False)),
        }
        return ModelRecord.of(texts | fields)

    @cached_property
    def _metrics(self) -> dict[str, dict[str, str]]:
        provenance = self.scores.provenance
        return {
            name: {"version": m["version"], "weights_sha256": m["weights_sha256"] or ""}
            for name, m in provenance["metrics"].items()
        } | {name: {"missing": why} for name, why in provenance["not_run"].items()}

    def run(self) -> RunRecord:
        header, suite = self.folder.header, self.folder.suite
        provenance = dict(header.provenance)
        editor = without_private(provenance.pop("editor", {}), PRIVATE_FACTS)
        silent = [
            audit.kind
            for chain in self.folder.chains.values()
            for audit in chain.audits
            if not audit.file and len(chain.trips) >= max(1, audit.number)
        ]
        audited = judge_audits(list(self.findings.values()), self.scores.first_edits_made, silent)
        spent = sum((Decimal(cost) for cost, _ in self.calls.values() if cost), Decimal(0))
        fields = {
            "secret": self.folder.secret,
            "stop_after": header.stop_after,
            "state": "finished",
            "source": "shell",
            "played": Played.by_editor(header.editor),
            "metrics": self._metrics,
            "provenance": {
                **provenance,
                "suite": {
                    "slug": suite.slug,
                    "version": suite.version,
                    "content_hash": suite.content_hash,
                },
                "model": {"editor": header.editor, **editor},
                "secret_sha256": commitment(self.folder.secret),
                **_scoring_provenance(self.scores.provenance),
            },
            "flags": [{"kind": "review", "text": reason} for reason in audited.reasons],
            **{name: getattr(audited, name) for name in MEDIANS},
            "orders": [dict(row) for row in self.scores.orders],
            "started_at": header.begun,
            "finished_at": header.ended,
            "calls": sum(attempts for _, attempts in self.calls.values()),
            "spent_usd": str(spent),
            "method_version": METHOD_VERSION,
            "arm": self.folder.arm.to_dict(),
        }
        return RunRecord.of(fields)

    def sources(self) -> Iterator[SourceRecord]:
        chains = {chain.image: chain for chain in self.folder.chains.values()}
        for slug, chain in sorted(chains.items()):
            yield SourceRecord.of({"slug": slug, **_file(self.folder.source(chain))})

    def calibrations(self) -> list[CalibrationRecord]:
        return [
            CalibrationRecord(
                image=image,
                metric=metric,
                blank=calibration.blank,
                ladder={str(quality): d for quality, d in calibration.ladder.items()},
            )
            for image, calibrations in sorted(self.scores.images.items())
            for metric in sorted(scored_metrics(self._metrics))
            if (calibration := calibrations.get(metric))
        ]

    def chains(self) -> list[ChainRecord]:
        return [
            chain.model_copy(update={"results": self._measured.results[chain.name]})
            for chain in self._chains
        ]

    def votes(self) -> tuple[VoteRecord, ...]:
        return ()

    def standings(self) -> list[StandingRecord]:
        return self._measured.standings

    @cached_property
    def _chains(self) -> list[ChainRecord]:
        records = []
        for slug, chain in self.folder.chains.items():
            scored = self.scores.chains.get(slug)
            if scored is None or scored.restored != tuple(
                steps[-1].sha256 for steps in chain.trips
            ):
                raise BundleError(
                    f"{slug} has new trips since it was scored: "
                    f"run convergebench score {self.folder.path}"
                )
            fields = {
                "case": chain.case,
                "repeat": chain.repeat,
                "outcome": chain.outcome,
                "outcome_text": chain.reason[:500],
                "results": {},
                "trips": list(self._trips(chain, scored)),
                "quality": scored.quality,
            }
            records.append(ChainRecord.of(fields))
        return records

    def _trips(self, chain: PlayedChain, scored: ChainScores) -> Iterator[dict[str, Any]]:
        edits: dict[int, dict[str, PlayedEdit]] = defaultdict(dict)
        for edit in chain.answers:
            edits[edit.number][edit.direction] = edit
        for number, by_direction in sorted(edits.items()):
            index = number - 1
            is_scored = index < len(scored.trips)
            yield trip_fields(
                number,
                self._edit(chain, by_direction.pop(FORWARD, None)),
                self._edit(chain, by_direction.pop(BACKWARD, None)),
                scored.trips[index] if is_scored else TripMeasures(),
                {n: d[index] for n, d in scored.distances.items() if d is not None and is_scored},
                [
                    {"name": name, **(self._edit(chain, edit) or {})}
                    for name, edit in by_direction.items()
                ],
            )

    def _edit(self, chain: PlayedChain, edit: PlayedEdit | None) -> dict[str, Any] | None:
        if edit is None:
            return None
        steps = self.folder.pair(chain).trip(edit.number).steps
        prompts = {step.name: step.prompt for step in steps}
        cost, attempts = self.calls[chain.slug, edit.number, edit.direction]
        return {
            "prompt": prompts[edit.direction],
            "seed": edit.seed,
            **{name: getattr(edit, name) for name in ("sha256", "mime", "width", "height")},
            "bytes": len(self.folder.read_bytes(chain, edit)),
            "seconds": edit.seconds,
            "cost": cost,
            "attempts": attempts,
            "notes": dict(edit.notes),
        }

    def audits(self) -> list[AuditRecord]:
        """Return every planned audit; empty if the run was not audited."""
        played_audits = {
            (chain.case, chain.repeat, audit.number): (chain, audit)
            for chain in self.folder.chains.values()
            for audit in chain.audits
        }
        if not played_audits:
            return []
        order = {case.slug: place for place, case in enumerate(self.folder.suite.cases)}
        stop_after = self.folder.header.stop_after
        planned = plan(self.folder.secret, self.folder.suite, stop_after=stop_after)
        planned.sort(key=lambda a: (order[a.case], a.repeat, a.number))
        rows = []
        for audit in planned:
            played = played_audits.get((audit.case, audit.repeat, audit.number))
            outcome = self._audit_outcome(*played) if played else {}
            rows.append(AuditRecord.of({**asdict(audit), **outcome}))
        return rows

    def _audit_outcome(self, chain: PlayedChain, audit: PlayedAudit) -> dict[str, Any]:
        finding = self.findings.get((chain.slug, audit.number))
        cost, attempts = self.calls[chain.slug, audit.number, "audit"]
        answer = self.folder.read(chain, audit) if audit.file else None
        return {
            "outcome": audit.outcome if audit.outcome in OUTCOMES else "failed",
            "words": audit.words[:200],
            "seed": audit.seed,
            "sent": _file(self.folder.read_sent(chain, audit)),
            "answer": _file(answer) if answer else None,
            "seconds": audit.seconds if answer else None,
            "cost": cost,
            "attempts": attempts,
            "finding": asdict(finding) if finding else {},
        }

    @cached_property
    def _measured(self) -> _Measured:
        """The results of every chain by every metric, and all standings (results of the run)."""
        suite, calibrations = self.folder.suite, self.calibrations()
        results: dict[str, dict[str, Any]] = {chain.name: {} for chain in self._chains}
        rows = []
        for metric in scored_metrics(self._metrics):
            by_image = {row.image: row for row in calibrations if row.metric == metric}
            chains = measured_chains(suite, metric, by_image, self._chains)
            if chains is None:
                continue
            for record, chain in chains:
                results[record.name][metric] = as_json(chain_numbers(chain, suite.trips))
            rows += [row for row, _ in standings(metric, [c for _, c in chains], suite.trips)]
        rows.sort(key=lambda row: (row.metric, row.threshold, row.scope))
        return _Measured(results, rows)

    def images(self) -> Iterator[tuple[str, str, bytes]]:
        seen: set[str] = set()
        for chain in self.folder.chains.values():
            for sha256, mime, data in _chain_images(self.folder, chain):
                if sha256 not in seen:
                    seen.add(sha256)
                    yield sha256, mime, data


class _Measured(NamedTuple):
    #: The results of each chain by each metric.
    results: dict[str, dict[str, Any]]
    standings: list[StandingRecord]


def _scoring_provenance(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance of scoring: versions, weights and devices.

    Imported score files get a key of their own.
    """
    scoring = {name: value for name, value in provenance.items() if name != "score_files"}
    files = provenance.get("score_files")
    return {"scoring": scoring} | ({"score_files": files} if files else {})


def _calls(folder: RunFolder) -> defaultdict[tuple[str, int, str], tuple[str | None, int]]:
    """Return the cost and the number of attempts of each edit."""
    by_edit: defaultdict[tuple[str, int, str], tuple[str | None, int]]
    by_edit = defaultdict(lambda: (None, 0))
    for call in folder.calls():
        key = (call.chain, call.number, call.direction)
        cost, attempts = by_edit[key]
        if call.cost is not None:
            cost = str(Decimal(cost or "0") + Decimal(str(call.cost)))
        by_edit[key] = (cost, attempts + 1)
    return by_edit


def _chain_images(folder: RunFolder, chain: PlayedChain) -> Iterator[tuple[str, str, bytes]]:
    decoded = [folder.source(chain)]
    for edit in chain.answers:
        yield edit.sha256, edit.mime, folder.read_bytes(chain, edit)
    for audit in chain.audits:
        decoded.append(folder.read_sent(chain, audit))
        if audit.file:
            decoded.append(folder.read(chain, audit))
    yield from ((image.sha256, image.mime, image.data) for image in decoded)


def _file(image: EncodedImage) -> dict[str, Any]:
    return {
        "sha256": image.sha256,
        "mime": image.mime,
        "width": image.width,
        "height": image.height,
        "bytes": len(image.data),
    }
