"""Brent's search for the least value between two bounds, of many functions at once.

The steps are those of scipy's `minimize_scalar(method="bounded")`, and so is the result to the
last bit. That takes one function at a time, and of a hundred drawn curves the calls alone take
longer than all else that a standing needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from evaluation.analysis.survival import Floats

# How near the place is found, absolute and relative: scipy's own.
NEAR, ROUNDING = 1e-5, math.sqrt(2.2e-16)
MOST = 500  # steps, scipy's own
GOLDEN = 0.5 * (3.0 - math.sqrt(5.0))


def least(error: Callable[[Floats], Floats], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Where each function is least between its bounds, and what it is there.

    `error` takes a place for each function, and gives the value of each.
    """
    # The three best places so far, and the values there.
    best = second = third = low + GOLDEN * (high - low)
    at_best = at_second = at_third = error(best)
    step = step_before = np.zeros_like(best)
    for _ in range(MOST):
        middle = 0.5 * (low + high)
        near = ROUNDING * np.abs(best) + NEAR / 3.0
        searching = np.abs(best - middle) > 2.0 * near - 0.5 * (high - low)
        if not searching.any():
            break

        # To the bottom of the parabola through the three, where it is within and steps shrink.
        r = (best - second) * (at_best - at_third)
        q = (best - third) * (at_best - at_second)
        p = (best - third) * q - (best - second) * r
        q = 2.0 * (q - r)
        p, q = np.where(q > 0, -p, p), np.abs(q)
        parabolic = np.abs(step_before) > near
        parabolic &= np.abs(p) < np.abs(0.5 * q * step_before)
        parabolic &= (p > q * (low - best)) & (p < q * (high - best))
        bottom = np.divide(p, q, out=np.zeros_like(p), where=parabolic)
        at_bound = np.minimum(best + bottom - low, high - (best + bottom)) < 2.0 * near
        bottom = np.where(at_bound, np.where(middle < best, -near, near), bottom)
        # Else by the golden section of the longer side.
        side = np.where(best >= middle, low, high) - best
        step_before = np.where(parabolic, step, side)
        step = np.where(parabolic, bottom, GOLDEN * side)
        new = best + np.where(step < 0, -1.0, 1.0) * np.maximum(np.abs(step), near)
        at_new = error(new)

        # Of the new place and the best one the worse is the new bound on its side.
        better = at_new <= at_best
        worse, is_low = np.where(better, best, new), better == (new >= best)
        low = np.where(searching & is_low, worse, low)
        high = np.where(searching & ~is_low, worse, high)
        first = searching & better
        next_ = searching & ~better & ((at_new <= at_second) | (second == best))
        last = (at_new <= at_third) | (third == best) | (third == second)
        last &= searching & ~better & ~next_
        moved = first | next_
        third, at_third = (
            np.where(moved, up, np.where(last, own, old))
            for up, own, old in ((second, new, third), (at_second, at_new, at_third))
        )
        second, at_second = (
            np.where(first, up, np.where(next_, own, old))
            for up, own, old in ((best, new, second), (at_best, at_new, at_second))
        )
        best, at_best = np.where(first, new, best), np.where(first, at_new, at_best)
    return best, at_best
