"""exp2, log and pow with upstream's rounding.

Upstream's sizes depend on bucket borders and decay factors, and its mathematics library differs from the C library in
the last bit. That bit determines on which side of a border a sample falls and, after truncation, the last byte of a
recommendation. The series below are the classic ones of FreeBSD's msun. Only `exp2` runs for every sample, so it also
works on arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LN2_HI = 6.93147180369123816490e-01
_LN2_LO = 1.90821492927058770002e-10
_EXP = (
    1.66666666666666657415e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
_LOG = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)


def exp2(x: float) -> float:
    """2**x; zero below the smallest and infinite above the largest double."""
    if x > 1.0239999999999999e03:
        return math.inf
    if x < -1.0740e03:
        return 0.0
    k = int(x + 0.5) if x > 0 else int(x - 0.5) if x < 0 else 0
    t = x - k
    return math.ldexp(_exp_series(t * _LN2_HI, -t * _LN2_LO), k)


def exp2_array(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """`exp2` of every element, bit for bit."""
    k = np.trunc(x + np.copysign(0.5, x))
    t = x - k
    result: NDArray[np.float64] = np.ldexp(
        _exp_series(t * _LN2_HI, -t * _LN2_LO), np.clip(k, -4000, 4000).astype(np.int32)
    )
    result[x > 1.0239999999999999e03] = np.inf
    result[x < -1.0740e03] = 0.0
    return result


def _exp_series(hi: Any, lo: Any) -> Any:
    r = hi - lo
    t = r * r
    c = r - t * (_EXP[0] + t * (_EXP[1] + t * (_EXP[2] + t * (_EXP[3] + t * _EXP[4]))))
    return 1 - ((lo - (r * c) / (2 - c)) - hi)


def log(x: float) -> float:
    """The natural logarithm of a positive number."""
    if math.isinf(x):
        return x
    f1, ki = math.frexp(x)
    if f1 < math.sqrt(0.5):
        f1 *= 2
        ki -= 1
    f = f1 - 1
    k = float(ki)
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    t1 = s2 * (_LOG[0] + s4 * (_LOG[2] + s4 * (_LOG[4] + s4 * _LOG[6])))
    t2 = s4 * (_LOG[1] + s4 * (_LOG[3] + s4 * _LOG[5]))
    half_square = 0.5 * f * f
    return k * _LN2_HI - ((half_square - (s * (half_square + (t1 + t2)) + k * _LN2_LO)) - f)


def pow_(x: float, y: float) -> float:
    """x**y for positive x, by repeated squaring of the fraction."""
    if y == 0 or x == 1:
        return 1.0
    if y == 1:
        return x
    if math.isinf(x):
        return math.inf if y > 0 else 0.0
    if y in (0.5, -0.5):
        return math.sqrt(x) if y > 0 else 1 / math.sqrt(x)
    fraction, whole = math.modf(abs(y))
    product, exponent = 1.0, 0
    if fraction:
        if fraction > 0.5:
            fraction -= 1
            whole += 1
        product = math.exp(fraction * log(x))
    square, square_exponent = math.frexp(x)
    bits = int(whole)
    while bits:
        if abs(square_exponent) > 1 << 12:
            exponent += square_exponent
            break
        if bits & 1:
            product *= square
            exponent += square_exponent
        square *= square
        square_exponent <<= 1
        if square < 0.5:
            square += square
            square_exponent -= 1
        bits >>= 1
    if y < 0:
        product, exponent = 1 / product, -exponent
    return _ldexp(product, exponent)


def _ldexp(product: float, exponent: int) -> float:
    try:
        return math.ldexp(product, exponent)
    except OverflowError:
        return math.inf
