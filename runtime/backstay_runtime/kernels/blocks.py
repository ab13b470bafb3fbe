"""Products of one to four rows with four rows of weights at a time.

What is loaded is used several times while it is in a register: four rows and four weights make sixteen products of
eight numbers. Each sum is a variable of its own, as an array of sums would lie in memory; and each number of rows has a
function of its own, as one with all of them is vectorised badly.
"""

from typing import Any

import numpy as np

from backstay_runtime.kernels.jit import compiled, widen

WEIGHTS = 4
"""Rows of weights in a block."""

_NEAR = 16
"""Rows of weights that all rows are multiplied with before the next ones: they stay in the nearest cache."""


@compiled
def one_row(rows: Any, m: int, data: Any, first: int, last: int, scales: Any, out: Any) -> None:
    """out[m, first:last] = rows[m] @ weight[first:last].T, whole blocks; a weight is data[n, k] × scales[n, 0]."""
    a = rows[m]
    for n in range(first, last, WEIGHTS):
        w, x, y, z = data[n], data[n + 1], data[n + 2], data[n + 3]
        aw, ax, ay, az = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(a.shape[0]):
            p, q, r, s = widen(w[k]), widen(x[k]), widen(y[k]), widen(z[k])
            aw += a[k] * p
            ax += a[k] * q
            ay += a[k] * r
            az += a[k] * s
        store(out, m, n, scales, aw, ax, ay, az)


@compiled
def two_rows(rows: Any, m: int, data: Any, first: int, last: int, scales: Any, out: Any) -> None:
    """The same of rows m and m + 1."""
    a, b = rows[m], rows[m + 1]
    for n in range(first, last, WEIGHTS):
        w, x, y, z = data[n], data[n + 1], data[n + 2], data[n + 3]
        aw, ax, ay, az = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        bw, bx, by, bz = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(a.shape[0]):
            p, q, r, s = widen(w[k]), widen(x[k]), widen(y[k]), widen(z[k])
            aw += a[k] * p
            ax += a[k] * q
            ay += a[k] * r
            az += a[k] * s
            bw += b[k] * p
            bx += b[k] * q
            by += b[k] * r
            bz += b[k] * s
        store(out, m, n, scales, aw, ax, ay, az)
        store(out, m + 1, n, scales, bw, bx, by, bz)


@compiled
def three_rows(rows: Any, m: int, data: Any, first: int, last: int, scales: Any, out: Any) -> None:
    """The same of rows m to m + 2."""
    a, b, c = rows[m], rows[m + 1], rows[m + 2]
    for n in range(first, last, WEIGHTS):
        w, x, y, z = data[n], data[n + 1], data[n + 2], data[n + 3]
        aw, ax, ay, az = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        bw, bx, by, bz = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        cw, cx, cy, cz = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(a.shape[0]):
            p, q, r, s = widen(w[k]), widen(x[k]), widen(y[k]), widen(z[k])
            aw += a[k] * p
            ax += a[k] * q
            ay += a[k] * r
            az += a[k] * s
            bw += b[k] * p
            bx += b[k] * q
            by += b[k] * r
            bz += b[k] * s
            cw += c[k] * p
            cx += c[k] * q
            cy += c[k] * r
            cz += c[k] * s
        store(out, m, n, scales, aw, ax, ay, az)
        store(out, m + 1, n, scales, bw, bx, by, bz)
        store(out, m + 2, n, scales, cw, cx, cy, cz)


@compiled
def four_rows(rows: Any, m: int, data: Any, first: int, last: int, scales: Any, out: Any) -> None:
    """The same of rows m to m + 3."""
    a, b, c, d = rows[m], rows[m + 1], rows[m + 2], rows[m + 3]
    for n in range(first, last, WEIGHTS):
        w, x, y, z = data[n], data[n + 1], data[n + 2], data[n + 3]
        aw, ax, ay, az = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        bw, bx, by, bz = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        cw, cx, cy, cz = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        dw, dx, dy, dz = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(a.shape[0]):
            p, q, r, s = widen(w[k]), widen(x[k]), widen(y[k]), widen(z[k])
            aw += a[k] * p
            ax += a[k] * q
            ay += a[k] * r
            az += a[k] * s
            bw += b[k] * p
            bx += b[k] * q
            by += b[k] * r
            bz += b[k] * s
            cw += c[k] * p
            cx += c[k] * q
            cy += c[k] * r
            cz += c[k] * s
            dw += d[k] * p
            dx += d[k] * q
            dy += d[k] * r
            dz += d[k] * s
        store(out, m, n, scales, aw, ax, ay, az)
        store(out, m + 1, n, scales, bw, bx, by, bz)
        store(out, m + 2, n, scales, cw, cx, cy, cz)
        store(out, m + 3, n, scales, dw, dx, dy, dz)


@compiled
def store(out: Any, m: int, n: int, scales: Any, w: Any, x: Any, y: Any, z: Any) -> None:
    """Four sums of one row, scaled."""
    out[m, n], out[m, n + 1] = w * scales[n, 0], x * scales[n + 1, 0]
    out[m, n + 2], out[m, n + 3] = y * scales[n + 2, 0], z * scales[n + 3, 0]


@compiled
def all_rows(rows: Any, data: Any, first: int, last: int, scales: Any, out: Any) -> None:
    """out[:, first:last] = rows @ weight[first:last].T; whole blocks of weights."""
    count = rows.shape[0]
    while first < last:
        until, m = min(first + _NEAR, last), 0
        while m + 4 <= count:
            four_rows(rows, m, data, first, until, scales, out)
            m += 4
        if count - m == 3:
            three_rows(rows, m, data, first, until, scales, out)
        elif count - m == 2:
            two_rows(rows, m, data, first, until, scales, out)
        elif count - m == 1:
            one_row(rows, m, data, first, until, scales, out)
        first = until
