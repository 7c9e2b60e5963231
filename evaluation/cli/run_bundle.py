"""A run folder as a bundle: the same file that a site writes of its runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from evaluation.analysis.half_life import METHOD_VERSION
from evaluation.analysis.standings import chain_numbers, standings
from evaluation.audits.findings import Audited, Finding, judged
from evaluation.audits.plan import plan
from evaluation.bundle import format as bundles
from evaluation.bundle import writing
from evaluation.bundle.format import BundleError, CalibrationLine, ChainLine
from evaluation.bundle.numbers import measured
from evaluation.content import catalog
from evaluation.content.shapes import BACKWARD, FORWARD
from evaluation.images import Picture
from evaluation.metrics import scored_metrics
from evaluation.play.run_folder import PlayedAudit, PlayedChain, PlayedHalf, RunFolder
from evaluation.play.run_scores import ChainScores, RunScores
from evaluation.records import TripMeasures
from evaluation.run_secret import commitment

#: What a bundle says of its model where nobody told more.
UNTOLD = ("provider", "organisation", "licence", "homepage", "paper_url", "code_url")
OUTCOMES = {"answered", "refused", "failed"}


def write_bundle(
    folder: RunFolder,
    scores: RunScores,
    out: Path,
    *,
    findings: Mapping[tuple[str, int], Finding] | None = None,
    pictures: bool = True,
) -> dict[str, Any]:
    """The bundle of a run that was played to its end and scored; returns its document.

    `findings` are those of its audits, by chain and trip. BundleError says what is lacking.
    """
    document = _Document(folder, scores, findings or {}, pictures).made()
    part = out.with_name(f".{out.name}.part")
    try:
        found = writing.write(part, document, _pictures(folder) if pictures else ())
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return found


class _Document:
    def __init__(
        self,
        folder: RunFolder,
        scores: RunScores,
        findings: Mapping[tuple[str, int], Finding],
        pictures: bool,
    ) -> None:
        self.folder, self.scores, self.findings = folder, scores, findings
        self.pictures, self.suite = pictures, folder.suite
        self.calls = _calls(folder)

    def made(self) -> dict[str, Any]:
        folder = self.folder
        if not folder.complete:
            left = sum(not chain.outcome for chain in folder.chains.values())
            raise BundleError(
                f"{folder.path} is not complete: {left} of {len(folder.chains)} chains are still "
                "to be played"
            )
        if self.scores.method != METHOD_VERSION:
            raise BundleError(
                f"{folder.path} is scored by method {self.scores.method}, today's is "
                f"{METHOD_VERSION}: convergebench score {folder.path}"
            )
        metrics = self._metrics()
        calibrations, chains = self._calibrations(metrics), self._chains()
        return {
            "format": bundles.FORMAT,
            "pictures": self.pictures,
            "suite": {"definition": self.suite.to_dict()},
            "model": self._model(),
            "run": self._run(metrics),
            "sources": self._sources(),
            "calibrations": calibrations,
            "chains": chains,
            "audits": self._audits(),
            "standings": self._standings(metrics, calibrations, chains),
        }

    def _model(self) -> dict[str, Any]:
        header = self.folder.header
        rows = {row["slug"]: row for row in catalog.editing_models()}
        known = rows.get(str(header.get("slug")), {})
        editor = str(header["editor"])
        return {name: str(known.get(name) or "") for name in UNTOLD} | {
            "slug": _slug(str(header.get("slug") or self.folder.name)),
            "name": self.folder.name[:120] or "own",
            "editor": editor[:60],
            "options": writing.public(header["options"]),
            "access": str(known.get("access") or "local"),
            "open_weights": known.get("open_weights"),
            "price_per_edit": _text(known.get("price_per_edit")),
            "is_reference": bool(known.get("is_reference", False)),
        }

    def _metrics(self) -> dict[str, dict[str, str]]:
        made = self.scores.provenance
        return {
            name: {"version": m["version"], "weights_sha256": m["weights_sha256"] or ""}
            for name, m in made["metrics"].items()
        } | {name: {"missing": why} for name, why in made["not_run"].items()}

    def _run(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        header, suite = self.folder.header, self.suite
        told = dict(header.get("provenance") or {})
        editor = writing.public(told.pop("editor", {}), writing.PRIVATE_FACTS)
        audited = self._audited()
        spent = sum((Decimal(cost) for cost, _ in self.calls.values() if cost), Decimal(0))
        return {
            "secret": self.folder.secret,
            "earlier_secrets": [],
            "stop_after": int(header.get("stop_after") or 0),
            "state": "finished",
            "source": "shell",
            "metrics": dict(metrics),
            "provenance": {
                **told,
                "suite": {
                    "slug": suite.slug,
                    "version": suite.version,
                    "content_hash": suite.content_hash,
                },
                "model": {"editor": header["editor"], **editor},
                "secret_sha256": commitment(self.folder.secret),
                **_told_apart(self.scores.provenance),
            },
            "flags": [{"kind": "review", "text": reason} for reason in audited.reasons],
            "cleared": False,
            "decision": "",
            "marks_kept": audited.marks_kept,
            "loss_under_audit": audited.loss_under_audit,
            **({"orders": [dict(row) for row in self.scores.orders]} if self.scores.orders else {}),
            "changed_elsewhere": audited.changed_elsewhere,
            "started_at": header.get("begun"),
            "finished_at": header.get("ended"),
            "calls": sum(attempts for _, attempts in self.calls.values()),
            "spent_usd": str(spent),
            "method_version": METHOD_VERSION,
            **({} if self.folder.arm.is_default else {"arm": self.folder.arm.to_dict()}),
        }

    def _audited(self) -> Audited:
        return judged(list(self.findings.values()), self.scores.first_edits_made)

    def _sources(self) -> list[dict[str, Any]]:
        found = {chain.picture: chain for chain in self.folder.chains.values()}
        return [{"slug": slug} | _file(self.folder.source(found[slug])) for slug in sorted(found)]

    def _calibrations(self, metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "picture": picture,
                "metric": metric,
                "blank": found.blank,
                "ladder": {str(quality): d for quality, d in found.ladder.items()},
            }
            for picture, calibrations in sorted(self.scores.pictures.items())
            for metric in sorted(scored_metrics(metrics))
            if (found := calibrations.get(metric))
        ]

    def _chains(self) -> list[dict[str, Any]]:
        found = []
        for slug, chain in self.folder.chains.items():
            scored = self.scores.chains.get(slug)
            if scored is None or scored.restored != tuple(
                steps[-1].sha256 for steps in chain.trips
            ):
                raise BundleError(
                    f"{slug} was played on since it was scored: "
                    f"convergebench score {self.folder.path}"
                )
            found.append(
                {
                    "case": chain.case,
                    "repeat": chain.repeat,
                    "outcome": chain.outcome,
                    "outcome_text": chain.reason[:500],
                    "results": {},
                    "trips": list(self._trips(chain, scored)),
                    **writing.quality_of(scored),
                }
            )
        return found

    def _trips(self, chain: PlayedChain, scored: ChainScores) -> Iterator[dict[str, Any]]:
        halves: dict[int, dict[str, PlayedHalf]] = defaultdict(dict)
        for half in _counted(chain):
            halves[half.number][half.direction] = half
        for number, both in sorted(halves.items()):
            index = number - 1
            whole = index < len(scored.trips)
            yield writing.trip_line(
                number,
                self._half(chain, both.pop(FORWARD, None)),
                self._half(chain, both.pop(BACKWARD, None)),
                scored.trips[index] if whole else TripMeasures(),
                {n: d[index] for n, d in scored.distances.items() if d is not None and whole},
                [{"name": name, **(self._half(chain, one) or {})} for name, one in both.items()],
            )

    def _half(self, chain: PlayedChain, half: PlayedHalf | None) -> dict[str, Any] | None:
        if half is None:
            return None
        asked = self.folder.pair(chain).trip(half.number).steps
        prompts = {step.name: step.prompt for step in asked}
        cost, attempts = self.calls[chain.slug, half.number, half.direction]
        return {
            "prompt": prompts[half.direction],
            "seed": half.seed,
            **{name: getattr(half, name) for name in ("sha256", "mime", "width", "height")},
            "bytes": len(self.folder.read_bytes(chain, half)),
            "seconds": half.seconds,
            "cost": cost,
            "attempts": attempts,
            "notes": dict(half.notes),
        }

    def _audits(self) -> list[dict[str, Any]]:
        """Every audit that was drawn, where the run was audited."""
        made = {
            (chain.case, chain.repeat, audit.number): (chain, audit)
            for chain in self.folder.chains.values()
            for audit in chain.audits
        }
        if not made:
            return []
        order = {case.slug: place for place, case in enumerate(self.suite.cases)}
        stop = int(self.folder.header.get("stop_after") or 0)
        drawn = plan(self.folder.secret, self.suite, stop_after=stop)
        drawn.sort(key=lambda a: (order[a.case], a.repeat, a.number))
        rows = []
        for audit in drawn:
            played = made.get((audit.case, audit.repeat, audit.number))
            told = self._played_audit(*played) if played else _UNPLAYED
            rows.append({**asdict(audit), **told})
        return rows

    def _played_audit(self, chain: PlayedChain, audit: PlayedAudit) -> dict[str, Any]:
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

    def _standings(
        self,
        metrics: Mapping[str, Any],
        calibrations: list[dict[str, Any]],
        chains: list[dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """The standings by every metric; `chains` get their results."""
        rows = []
        lines = [_line(ChainLine, chain) for chain in chains]
        for metric in scored_metrics(metrics):
            own = {
                row["picture"]: _line(CalibrationLine, row)
                for row in calibrations
                if row["metric"] == metric
            }
            found = measured(self.suite, metric, own, lines)
            if found is None:
                continue
            results = {line.name: chain_numbers(one, self.suite.trips) for line, one in found}
            for chain, line in zip(chains, lines, strict=True):
                if line.name in results:
                    chain["results"][metric] = results[line.name]
            for standing in standings(metric, [one for _, one in found], self.suite.trips):
                about = {"level": standing.level, "scope": standing.scope}
                rows.append(writing.standing_line(metric, standing.numbers | about))
        return sorted(rows, key=lambda row: (row["metric"], row["level"], row["scope"]))


def _told_apart(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What scoring found and what score files brought, as the record of a site's run has them."""
    scoring = {name: value for name, value in provenance.items() if name != "score_files"}
    files = provenance.get("score_files")
    return {"scoring": scoring} | ({"score_files": files} if files else {})


_UNPLAYED: dict[str, Any] = {
    "outcome": "",
    "words": "",
    "seed": None,
    "sent": None,
    "answer": None,
    "seconds": None,
    "cost": None,
    "attempts": 0,
    "finding": {},
}


def _line(kind: Any, row: Mapping[str, Any]) -> Any:
    """The row as whoever reads the bundle has it; its digest comes last."""
    trips = [{**trip, "digest": "0" * 64} for trip in row.get("trips", ())]
    own = {**row, "digest": "0" * 64} | ({"trips": trips} if "trips" in row else {})
    return kind.model_validate(json.loads(json.dumps(own)))


def _calls(folder: RunFolder) -> defaultdict[tuple[str, int, str], tuple[str | None, int]]:
    """What each half cost, and in how many attempts."""
    found: defaultdict[tuple[str, int, str], tuple[str | None, int]]
    found = defaultdict(lambda: (None, 0))
    for call in folder.calls():
        key = (str(call["chain"]), int(call["number"]), str(call["direction"]))
        cost, attempts = found[key]
        if call.get("cost") is not None:
            cost = str(Decimal(cost or "0") + Decimal(str(call["cost"])))
        found[key] = (cost, attempts + 1)
    return found


def _pictures(folder: RunFolder) -> Iterator[tuple[str, bytes]]:
    """Every picture of the run once, by the name it has in a bundle."""
    seen: set[str] = set()
    for chain in folder.chains.values():
        for sha256, mime, data in _of_chain(folder, chain):
            if sha256 not in seen:
                seen.add(sha256)
                yield bundles.picture_name(sha256, mime), data


def _of_chain(folder: RunFolder, chain: PlayedChain) -> Iterator[tuple[str, str, bytes]]:
    made = [folder.source(chain)]
    for half in _counted(chain):
        yield half.sha256, half.mime, folder.read_bytes(chain, half)
    for audit in chain.audits:
        made.append(folder.read_sent(chain, audit))
        if audit.file:
            made.append(folder.read(chain, audit))
    yield from ((picture.sha256, picture.mime, picture.data) for picture in made)


def _counted(chain: PlayedChain) -> tuple[PlayedHalf, ...]:
    """The answers that a bundle tells; the blank one that ended a chain is none."""
    return chain.halves[:-1] if chain.outcome == "blank" else chain.halves


def _file(picture: Picture) -> dict[str, Any]:
    return {
        "sha256": picture.sha256,
        "mime": picture.mime,
        "width": picture.width,
        "height": picture.height,
        "bytes": len(picture.data),
    }


def _slug(text: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)
    return kept.strip("-").lower()[:80] or "own"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
