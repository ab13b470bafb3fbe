"""The exponential function of float32, made of instructions that a compiler can vectorise; its own is a call."""

from typing import Any

from llvmlite import ir
from numba import types

from backstay_runtime.kernels.jit import builtin

_LOWEST, _HIGHEST = -87.0, 88.0
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; a whole number below 128 times the first is exact."""
_POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""(exp(r) - 1 - r) / r² for |r| ≤ ln 2 / 2, from the highest power down. Source: Moshier, Cephes, expf."""
_ROUNDING = 1.5 * 2**23
"""Added to a small number, it leaves the number rounded to a whole one, which then stands in the lowest bits."""


@builtin
def exponential(_typing: Any, _x: Any) -> Any:
    """exp(x), off by 2 units in the last place at most; x is held between -87 and 88, and NaN stays NaN."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        single, word = ir.FloatType(), ir.IntType(32)

        def number(value: float) -> Any:
            return ir.Constant(single, value)

        (x,) = given
        for limit, sign in ((_LOWEST, "<"), (_HIGHEST, ">")):
            x = builder.select(builder.fcmp_ordered(sign, x, number(limit)), number(limit), x)
        # x = n ln 2 + r. Instructions without flags: their order is what makes them exact.
        rounded = builder.fma(x, number(_LOG2_E), number(_ROUNDING))
        n = builder.fsub(rounded, number(_ROUNDING))
        r = builder.fma(n, number(-_LN2_HIGH), x)
        r = builder.fma(n, number(-_LN2_LOW), r)
        found = number(_POLYNOMIAL[0])
        for factor in _POLYNOMIAL[1:]:
            found = builder.fma(found, r, number(factor))
        found = builder.fma(builder.fmul(found, r), r, builder.fadd(r, number(1.0)))
        exponent = builder.add(builder.bitcast(rounded, word), ir.Constant(word, 127))
        power = builder.bitcast(builder.shl(exponent, ir.Constant(word, 23)), single)
        return builder.fmul(found, power)

    return types.float32(types.float32), generate
