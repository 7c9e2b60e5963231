"""Random chains for property-based tests."""

from __future__ import annotations

from hypothesis import strategies as st

from evaluation.analysis.events import ChainResult
from evaluation.testing.chains import chain


@st.composite
def chains_of_a_run(draw: st.DrawFn, lost: bool = True) -> list[ChainResult]:
    """Generate up to eight chains of six trips in two categories, which cross, break or get lost."""
    outcomes = ["refused", "blank", "failed"] + ["lost"] * lost
    result = []
    for i in range(draw(st.integers(1, 8))):
        retention = draw(st.lists(st.floats(-0.5, 1), min_size=6, max_size=6))
        outcome = "completed"
        if draw(st.booleans()):
            outcome = draw(st.sampled_from(outcomes))
            retention = retention[: draw(st.integers(0, 5))]
        judged = st.lists(
            st.sampled_from([True, True, None, False]),
            min_size=len(retention),
            max_size=len(retention),
        )
        result.append(
            chain(
                *retention,
                outcome=outcome,
                change_seen=tuple(draw(judged)),
                image=f"image-{i}",
                category=draw(st.sampled_from("ab")),
                kind=draw(st.sampled_from("xy")),
                origin="photograph",
            )
        )
    return result
