"""Were the audits of a bundle drawn by its secret, and did they find what it says?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from evaluation.audits.findings import find, from_dicts, judged
from evaluation.audits.plan import Audit, plan, where_drawn
from evaluation.audits.touch import Touch
from evaluation.bundle.checks import (
    DIFFERENT,
    NO_PICTURES,
    NOT_CHECKED,
    REGISTERED,
    Check,
    compared,
    digest_check,
    picture_checks,
)
from evaluation.bundle.document import Bundle
from evaluation.content.suites import Case
from evaluation.images import Picture, fit
from evaluation.measuring.scoring import Scorer
from evaluation.measuring.trip_measures import rmse
from evaluation.records import AuditRecord, FileRecord
from evaluation.witnesses.base import Verdict

#: A touch drawn again may differ by so much, of the full range: a JPEG of another library does.
SAME_TOUCH = (0.0, 0.01)
#: By which of these a loss is measured depends on which are there.
MEASURED_BY = frozenset({"lpips", "place", "picture", "ssim"})


def audit_checks(bundle: Bundle, scorer: Scorer, unable: Mapping[str, str]) -> Iterator[Check]:
    """Every check of the bundle's audits; `unable` says why a metric cannot run here."""
    if bundle.document.audits:
        yield from _Audits(bundle, scorer, unable).checks()


class _Audits:
    def __init__(self, bundle: Bundle, scorer: Scorer, unable: Mapping[str, str]) -> None:
        self.bundle, self.scorer, self.unable = bundle, scorer, unable
        self.document, self.suite = bundle.document, bundle.suite
        self.secrets, self.stop_after = self.document.run.secrets, self.document.run.stop_after
        self.cases = {case.slug: case for case in self.suite.cases}
        self.sources = {row.slug: row for row in self.document.sources}
        self.trips = {
            (chain.case, chain.repeat, trip.number): trip
            for chain in self.document.chains
            for trip in chain.trips
        }

    def checks(self) -> Iterator[Check]:
        lines = self.document.audits
        for raw, line in zip(self.bundle.raw["audits"], lines, strict=True):
            yield digest_check(line.name, raw)
        if len(self.secrets) == 1:  # else some were drawn anew, see `_drawn`
            stated = sorted([line.case, line.repeat, line.number, line.kind] for line in lines)
            yield compared("run", "which audits", stated, self._planned(stated))
        for line in lines:
            if case := self.cases.get(line.case):
                yield from self._audit(line, case)
            else:
                yield Check(line.name, "case", DIFFERENT, "it is not a case of the suite")
        yield from self._what_follows()

    def _planned(self, stated: list[list[Any]]) -> list[list[Any]]:
        """Return the audits that the secret draws, sorted."""
        return sorted(
            [audit.case, audit.repeat, audit.number, audit.kind]
            for audit in plan(self.secrets[0], self.suite, len(stated), self.stop_after)
        )

    def _audit(self, line: AuditRecord, case: Case) -> Iterator[Check]:
        audit = Audit(line.case, line.repeat, line.number, line.kind)
        secret, check = self._drawn(line, audit, case)
        yield check
        for what, row in (("sent", line.sent), ("answer", line.answer)):
            if row is not None:
                yield from picture_checks(self.bundle, f"{line.name}, {what}", row)[1]
        if line.finding and secret:
            yield from self._finding(line, audit, secret, case)

    def _drawn(self, line: AuditRecord, audit: Audit, case: Case) -> tuple[str | None, Check]:
        """The secret that drew this audit: it drew the place, and the seed where one was sent."""
        stated = [line.repeat, line.number, line.seed]
        drawn = {
            secret: [
                *where_drawn(secret, case, self.suite, self.stop_after),
                None if line.seed is None else audit.seed(secret),
            ]
            for secret in self.secrets
        }
        secret = next((s for s, found in drawn.items() if found == stated), None)
        found = drawn[secret or self.secrets[0]]
        return secret, compared(line.name, "place and seed", stated, found, (0.0, 0.0))

    def _finding(self, line: AuditRecord, audit: Audit, secret: str, case: Case) -> Iterator[Check]:
        """Whether this is the touch that the secret drew, and whether it cost what is stated."""
        last, own = (
            self.trips.get((line.case, line.repeat, number))
            for number in (line.number - 1, line.number)
        )
        source = self._read(self.sources.get(case.picture))
        before = self._read(last.backward) if last else source
        # What the last edit of the trip was made on.
        sent_on = (own.between[-1] if own.between else own.forward) if own else None
        edited, back = self._read(sent_on), self._read(own.backward if own else None)
        sent, answer = self._read(line.sent), self._read(line.answer)
        if not (source and before and edited and back and sent and answer):
            why = "its pictures are not sound" if self.document.pictures else NO_PICTURES
            yield Check(line.name, "finding", NOT_CHECKED, why)
            return
        pair = self.suite.pair_by_slug[case.pair].of_return(line.number)
        touch = Touch(audit, secret, pair, before, edited)
        yield compared(line.name, "what was done", line.words, touch.words)
        one, other = (np.asarray(fit(p.image, touch.sent.size)) for p in (sent, touch.sent))
        yield compared(line.name, "what was sent", 0.0, rmse(one, other), SAME_TOUCH)
        if unable := self.unable.keys() & MEASURED_BY:
            yield Check(line.name, "finding", NOT_CHECKED, self.unable[min(unable)])
            return
        found = find(line.kind, touch, source, back, answer, self.scorer)
        yield compared(line.name, "finding", line.finding, asdict(found), REGISTERED)

    def _read(self, row: FileRecord | None) -> Picture | None:
        return picture_checks(self.bundle, "", row)[0]

    def _what_follows(self) -> Iterator[Check]:
        """The medians, and why the run is out of the ranks, by the stated findings."""
        run = self.document.run
        first = [chain.trips[0] for chain in self.document.chains if chain.trips]
        made = [Verdict.of(trip.evidence).made for trip in first if trip.step is not None]
        try:
            findings = from_dicts([line.finding for line in self.document.audits if line.finding])
            audited = judged(findings, [verdict for verdict in made if verdict is not None])
        except (KeyError, TypeError) as error:
            yield Check("run", "audits", DIFFERENT, f"a finding is not one: {error}")
            return
        for name in ("marks_kept", "loss_under_audit", "changed_elsewhere"):
            yield compared(
                "run", name.replace("_", " "), getattr(run, name), getattr(audited, name)
            )
        stated = [flag.get("text") for flag in run.flags if isinstance(flag, dict)]
        yield compared("run", "why it is out of the ranks", stated, list(audited.reasons))
