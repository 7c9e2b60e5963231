"""Check a bundle's audits: their selection by the run's secret, and their findings.

Audits are extra requests that test a model for cheating (evaluation.audits.plan). Most send a
"touched" (slightly altered) copy of the model's own answer; cold audits send an image that the
model has never seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from evaluation.audits.findings import MEDIANS, findings_from_rows, judge_audits
from evaluation.audits.plan import BEFORE_TRIPS, Audit, audited_trip, plan
from evaluation.bundle.checks import (
    DIFFERENT,
    NO_IMAGES,
    NOT_CHECKED,
    REGISTERED,
    Check,
    compared,
    digest_check,
    image_checks,
)
from evaluation.bundle.scores import BundleScores
from evaluation.content.suites import Case
from evaluation.images import fit
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.trip_measures import rmse
from evaluation.play.finish import audit_finding, recreate_audit
from evaluation.records import AuditRecord
from evaluation.witnesses.base import Verdict

#: The tolerance (relative, absolute) of the RMSE between the sent and the recreated image, because
#: JPEG libraries differ.
TOUCH_TOLERANCE = (0.0, 0.01)
#: Findings may have been measured by any of these metrics, depending on which were installed.
MEASURED_BY = frozenset({"lpips", "overall", "ssim"})


def audit_checks(store: BundleScores, scorer: Scorer, unable: Mapping[str, str]) -> Iterator[Check]:
    """Yield every check of the bundle's audits.

    `unable` has the metrics that cannot run here, with the reasons.
    """
    if store.bundle.document.audits:
        yield from _Audits(store, scorer, unable).checks()


class _Audits:
    """The checks of all audits of one bundle."""

    def __init__(self, store: BundleScores, scorer: Scorer, unable: Mapping[str, str]) -> None:
        self.store, self.scorer, self.unable = store, scorer, unable
        self.bundle, self.document = store.bundle, store.bundle.document
        self.suite = self.bundle.suite
        self.secrets, self.stop_after = self.document.run.secrets, self.document.run.stop_after
        self.cases = {case.slug: case for case in self.suite.cases}
        self.chains = {(c.key.record.case, c.key.repeat): c for c in store.chains()}

    def checks(self) -> Iterator[Check]:
        lines = self.document.audits
        for raw, line in zip(self.bundle.raw["audits"], lines, strict=True):
            yield digest_check(line.name, raw)
        if len(self.secrets) == 1:  # with several secrets, `_find_secret` checks each audit
            stated = sorted([line.case, line.repeat, line.number, line.kind] for line in lines)
            yield compared("run", "planned audits", stated, self._planned(stated))
        for line in lines:
            if case := self.cases.get(line.case):
                yield from self._audit(line, case)
            else:
                yield Check(line.name, "case", DIFFERENT, "the case is not in the suite")
        yield from self._conclusions()

    def _planned(self, stated: list[list[Any]]) -> list[list[Any]]:
        """Return the audits that the run's secret selects, sorted."""
        touched = sum(kind != "cold" for *_, kind in stated)
        return sorted(
            [audit.case, audit.repeat, audit.number, audit.kind]
            for audit in plan(self.secrets[0], self.suite, touched, self.stop_after)
        )

    def _audit(self, line: AuditRecord, case: Case) -> Iterator[Check]:
        audit = Audit(line.case, line.repeat, line.number, line.kind)
        secret, check = self._find_secret(line, audit, case)
        yield check
        for what, row in (("sent", line.sent), ("answer", line.answer)):
            if row is not None:
                yield from image_checks(self.bundle, f"{line.name}, {what}", row)[1]
        if line.finding and secret:
            yield from self._finding(line, audit, secret)

    def _find_secret(self, line: AuditRecord, audit: Audit, case: Case) -> tuple[str | None, Check]:
        """Return the secret that gives the audit's repeat, trip and seed, and a check of these."""
        stated = [line.repeat, line.number, line.seed]
        is_cold = audit.kind == "cold"
        derived = {
            secret: [
                *(
                    (0, BEFORE_TRIPS)
                    if is_cold
                    else audited_trip(secret, case, self.suite, self.stop_after)
                ),
                None if line.seed is None else audit.seed(secret),
            ]
            for secret in self.secrets
        }
        secret = next((s for s, values in derived.items() if values == stated), None)
        values = derived[secret or self.secrets[0]]
        return secret, compared(line.name, "place and seed", stated, values, (0.0, 0.0))

    def _finding(self, line: AuditRecord, audit: Audit, secret: str) -> Iterator[Check]:
        """Recreate the sent image from the secret, and the finding from the images."""
        chain = self.chains.get((line.case, line.repeat))
        source = chain and self.store.source_of(chain)
        sent, answer = self.store.image(line.sent), self.store.image(line.answer)
        recreated = recreate_audit(self.store, chain, audit, secret) if chain and source else None
        if not (chain and sent and answer and recreated):
            why = "its images cannot be used" if self.document.images else NO_IMAGES
            yield Check(line.name, "finding", NOT_CHECKED, why)
            return
        alteration, _ = recreated
        yield compared(line.name, "alteration", line.words, alteration.words)
        size = alteration.sent.size
        stated, here = (np.asarray(fit(p.decoded, size)) for p in (sent, alteration.sent))
        yield compared(line.name, "sent image", 0.0, rmse(stated, here), TOUCH_TOLERANCE)
        if unable := self.unable.keys() & MEASURED_BY:
            yield Check(line.name, "finding", NOT_CHECKED, self.unable[min(unable)])
            return
        finding = audit_finding(self.store, chain, audit, secret, lambda: answer, self.scorer)
        computed = asdict(finding) if finding else {}
        yield compared(line.name, "finding", line.finding, computed, REGISTERED)

    def _conclusions(self) -> Iterator[Check]:
        """Check that the run's medians and flags (reasons for review) follow from the findings."""
        run = self.document.run
        first = [chain.trips[0] for chain in self.document.chains if chain.trips]
        edits_made = [
            Verdict.from_evidence(trip.evidence).made for trip in first if trip.step is not None
        ]
        silent = [
            line.kind
            for line in self.document.audits
            if line.outcome in ("refused", "failed")
            and (chain := self.chains.get((line.case, line.repeat)))
            and chain.played >= max(1, line.number)
        ]
        try:
            findings = findings_from_rows(
                [line.finding for line in self.document.audits if line.finding]
            )
            audited = judge_audits(findings, [v for v in edits_made if v is not None], silent)
        except (KeyError, TypeError) as error:
            yield Check("run", "audits", DIFFERENT, f"a finding is malformed: {error}")
            return
        for name in MEDIANS:
            yield compared(
                "run", name.replace("_", " "), getattr(run, name), getattr(audited, name)
            )
        stated = [flag.get("text") for flag in run.flags if isinstance(flag, dict)]
        yield compared("run", "reasons for review", stated, list(audited.reasons))
