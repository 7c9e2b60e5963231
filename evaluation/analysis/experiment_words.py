"""Sentences that state the numbers of an experiment, for its page and its report.

The functions take the stored data of `ExperimentNumbers.to_dict`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: The significance level of rank tests.
SIGNIFICANT = 0.05
#: The largest number of pairs of arms named in a sentence.
MAX_NAMED = 3


def finding(numbers: Mapping[str, Any]) -> str:
    """State in one sentence which arms differ from the baseline."""
    if not numbers["enough"]:
        return (
            f"{numbers['images']} images and {numbers['pairs']} edit pairs are too few to tell "
            "arms apart, so differences have no intervals."
        )
    sure = [effect for effect in numbers["effects"] if effect["sure"]]
    base = numbers["baseline"]
    if not sure:
        widest = max(effect["high"] - effect["difference"] for effect in numbers["effects"][1:])
        return (
            f"No arm differs clearly from {base}: any effect is too small for "
            f"{numbers['cases']} cases to show (± {widest:.1f} usable trips)."
        )
    differing = [f"{e['arm']} ({difference(e)})" for e in sure]
    others = len(numbers["effects"]) - 1 - len(sure)
    arms = "arm does" if others == 1 else "arms do"
    unclear = f"; the other {arms} not differ clearly" if others else ""
    return f"Compared with {base}, usable trips differ for {_listed(differing)}{unclear}."


def difference(effect: Mapping[str, Any]) -> str:
    """Return "-2.1 trips, 95 % -3.0 to -1.2", or only "-2.1 trips" without an interval."""
    text = f"{signed(effect['difference'])} trips"
    if effect["low"] is None or effect["high"] is None:
        return text
    return f"{text}, 95 % {signed(effect['low'])} to {signed(effect['high'])}"


def signed(value: float, digits: int = 1) -> str:
    """Return the number with its sign, using U+2212 for minus; zero has no sign."""
    rounded = round(value, digits) + 0.0
    if not rounded:
        return f"{0:.{digits}f}"
    return f"{'+' if rounded > 0 else '−'}{abs(rounded):.{digits}f}"


def rank_words(ranks: Mapping[str, Any]) -> str:
    """State the result of the rank test of all arms."""
    if ranks["p"] is None:
        return "There are too few cases for a rank test."
    differ = ranks["p"] < SIGNIFICANT
    verdict = "the arms differ" if differ else "no evidence that the arms differ"
    if ranks["test"] == "signed-rank":
        return (
            f"Wilcoxon's signed-rank test over {ranks['cases']} cases: {verdict} "
            f"({p_value(ranks['p'])})."
        )
    freedom = len(ranks["mean_ranks"]) - 1
    return (
        f"Friedman's test over {ranks['cases']} cases: {verdict} "
        f"(χ² = {ranks['statistic']:.1f} with {freedom} degrees of freedom, {p_value(ranks['p'])})."
    )


def pair_words(ranks: Mapping[str, Any]) -> str:
    """Name the pairs that differ in the post-hoc test; empty without a post-hoc test."""
    if ranks["test"] != "friedman" or ranks["p"] is None:
        return ""
    if ranks["p"] >= SIGNIFICANT:
        return "So no two arms are tested against each other."
    separated = [pair for pair in ranks["pairs"] if pair["p"] < SIGNIFICANT]
    if not separated:
        return "Signed-rank tests with Holm's correction find no two arms that differ."
    count = f"{len(separated)} of {len(ranks['pairs'])} pairs"
    separated.sort(key=lambda pair: pair["p"])
    pairs = [f"{p['first']} and {p['second']} ({p_value(p['p'])})" for p in separated[:MAX_NAMED]]
    named = "" if len(separated) <= MAX_NAMED else "most clearly "
    return (
        f"Signed-rank tests with Holm's correction find differences in {count}: "
        f"{named}{_listed(pairs)}."
    )


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def sensitivity_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Name the categories in which arms differ most and least; "" with only one category."""
    if len(rows) < 2:
        return ""
    ordered = sorted(rows, key=lambda row: -row["range"])
    most, least = ordered[0], ordered[-1]
    return (
        f"Arms differ most for {most['category']}: {most['range']:.1f} usable trips between "
        f"{most['best']} and {most['worst']}. They differ least for {least['category']}: "
        f"{least['range']:.1f}."
    )


def rerun_words(reruns: Mapping[str, Mapping[str, Any]]) -> str:
    """State the spread between reruns of one case, averaged over all arms."""
    repeated = [row for row in reruns.values() if row["rerun"] is not None]
    if not repeated:
        return "Every case was played once. To compare reruns, set the experiment's repeats."
    spread = sum(row["rerun"] for row in repeated) / len(repeated)
    shares = [row["icc"] for row in repeated if row["icc"] is not None]
    explained = (
        f" Differences between cases explain {100 * sum(shares) / len(shares):.0f} % of "
        "the variance."
        if shares
        else ""
    )
    return (
        f"When an arm plays a case again, the usable trips vary by ± {spread:.2f} "
        f"(standard deviation, {repeated[0]['repeats']} repeats).{explained}"
    )


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
