"""The kernels shaped like PolyBench compute what their mathematics says, told in NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels.build import system_compiler
from kernels.corpus import KERNELS, make_inputs, reference

SHAPED = [name for name, kernel in KERNELS.items() if kernel.kind != "nasty"]
Arrays = dict[str, Any]


def product_2mm(x: Arrays) -> Arrays:
    ab = x["alpha"] * x["A"] @ x["B"]
    return {"AB": ab, "D": x["beta"] * x["D"] + ab @ x["C"]}


def product_3mm(x: Arrays) -> Arrays:
    ab, cd = x["A"] @ x["B"], x["C"] @ x["D"]
    return {"AB": ab, "CD": cd, "G": ab @ cd}


def tridiagonal(n: int, off: float, middle: float) -> Any:
    """The system of one line of n - 2 inner points."""
    ones = np.ones(n - 3)
    return middle * np.eye(n - 2) + off * (np.diag(ones, 1) + np.diag(ones, -1))


def adi(x: Arrays) -> Arrays:
    """Each half step solves a tridiagonal system per line; ends of lines are held at 1."""
    n, steps, u, v = x["n"], x["tsteps"], x["u"].copy(), x["v"].copy()
    along, across = 2 * n * n / steps, n * n / steps
    a, d = -along / 2, -across / 2
    for _ in range(steps):
        right = -d * u[1:-1, :-2] + (1 + 2 * d) * u[1:-1, 1:-1] - d * u[1:-1, 2:]
        right[[0, -1]] -= a
        v[[0, -1], 1:-1] = 1
        v[1:-1, 1:-1] = np.linalg.solve(tridiagonal(n, a, 1 + along), right)
        right = (-a * v[:-2, 1:-1] + (1 + 2 * a) * v[1:-1, 1:-1] - a * v[2:, 1:-1]).T
        right[[0, -1]] -= d
        u[1:-1, [0, -1]] = 1
        u[1:-1, 1:-1] = np.linalg.solve(tridiagonal(n, d, 1 + across), right).T
    return {"u": u, "v": v}


def cholesky(x: Arrays) -> Arrays:
    left = np.linalg.cholesky(x["A"])
    return {"A": left + np.triu(x["A"], 1)}


def correlation(x: Arrays) -> Arrays:
    data = x["data"]
    spread = data.std(axis=0)
    spread[spread <= 0.1] = 1
    scaled = (data - data.mean(axis=0)) / (np.sqrt(x["count"]) * spread)
    corr = scaled.T @ scaled
    np.fill_diagonal(corr, 1)
    return {"mean": data.mean(axis=0), "spread": spread, "data": scaled, "corr": corr}


def covariance(x: Arrays) -> Arrays:
    mean = x["data"].mean(axis=0)
    return {"mean": mean, "data": x["data"] - mean, "cov": np.cov(x["data"], rowvar=False)}


def recursive(image: Any, now: float, before: float, feedback: tuple[float, float]) -> Any:
    """y[j] = now x[j] + before x[j-1] + b1 y[j-1] + b2 y[j-2] along the last axis."""
    out = np.zeros((image.shape[0], image.shape[1] + 2))
    earlier = np.pad(image, ((0, 0), (1, 0)))
    for j in range(image.shape[1]):
        out[:, j + 2] = now * image[:, j] + before * earlier[:, j]
        out[:, j + 2] += feedback[0] * out[:, j + 1] + feedback[1] * out[:, j]
    return out[:, 2:]


def deriche(x: Arrays) -> Arrays:
    """Along each line a causal filter and an anticausal one that starts a point later."""
    alpha, e = float(x["alpha"]), np.exp(-float(x["alpha"]))
    k = (1 - e) ** 2 / (1 + 2 * alpha * e - e * e)
    feedback = (2.0**-alpha, -e * e)

    def smooth(image: Any) -> Any:
        ahead = recursive(image, k, k * e * (alpha - 1), feedback)
        later = np.pad(image[:, ::-1], ((0, 0), (1, 0)))[:, :-1]
        back = recursive(later, k * e * (alpha + 1), -k * e * e, feedback)
        return ahead + back[:, ::-1]

    return {"smooth": smooth(smooth(x["image"].astype(float)).T).T}


def durbin(x: Arrays) -> Arrays:
    n = x["n"]
    row = np.concatenate([[1.0], x["r"][:-1]])
    toeplitz = row[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))]
    return {"y": np.linalg.solve(toeplitz, -x["r"])}


def fdtd(x: Arrays) -> Arrays:
    ex, ey, hz = (x[name].copy() for name in ("ex", "ey", "hz"))
    for pulse in x["pulse"]:
        ey[0] = pulse
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex, axis=1)[:-1] + np.diff(ey, axis=0)[:, :-1])
    return {"ex": ex, "ey": ey, "hz": hz}


def floyd_warshall(x: Arrays) -> Arrays:
    """Squaring over min and plus until nothing changes."""
    path = x["path"]
    while True:
        shorter = np.minimum(path, (path[:, :, None] + path[None, :, :]).min(axis=1))
        if np.array_equal(shorter, path):
            return {"path": path}
        path = shorter


def gemver(x: Arrays) -> Arrays:
    a = x["A"] + np.outer(x["u1"], x["v1"]) + np.outer(x["u2"], x["v2"])
    moved = x["x"] + x["beta"] * a.T @ x["y"] + x["z"]
    return {"A": a, "x": moved, "w": x["w"] + x["alpha"] * a @ moved}


def gramschmidt(x: Arrays) -> Arrays:
    q, r = np.linalg.qr(x["A"])
    signs = np.sign(np.diag(r))
    return {"Q": q * signs, "R": np.triu(signs[:, None] * r) + np.tril(x["R"], -1)}


def heat_3d(x: Arrays) -> Arrays:
    def step(old: Any, other: Any) -> Any:
        found, inner = other.copy(), old[1:-1, 1:-1, 1:-1]
        axes = [np.diff(np.moveaxis(old, axis, 0), 2, axis=0)[:, 1:-1, 1:-1] for axis in range(3)]
        flow = sum(np.moveaxis(part, 0, axis) for axis, part in enumerate(axes))
        found[1:-1, 1:-1, 1:-1] = inner + flow / 8
        return found

    a, b = x["A"], x["B"]
    for _ in range(x["tsteps"]):
        b = step(a, b)
        a = step(b, a)
    return {"A": a, "B": b}


def jacobi_1d(x: Arrays) -> Arrays:
    a, b = x["A"].copy(), x["B"].copy()
    for _ in range(x["tsteps"]):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])
    return {"A": a, "B": b}


def jacobi_2d(x: Arrays) -> Arrays:
    def mean(old: Any) -> Any:
        middle = old[1:-1, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        return (middle + old[:-2, 1:-1] + old[2:, 1:-1]) / 5

    a, b = x["A"].copy(), x["B"].copy()
    for _ in range(x["tsteps"]):
        b[1:-1, 1:-1] = mean(a)
        a[1:-1, 1:-1] = mean(b)
    return {"A": a, "B": b}


def lu(x: Arrays) -> Arrays:
    """Right-looking elimination, one rank at a time."""
    a = x["A"].copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return {"A": a}


def ludcmp(x: Arrays) -> Arrays:
    return {**lu(x), "x": np.linalg.solve(x["A"], x["b"])}


def nussinov(x: Arrays) -> Arrays:
    """The best of pairing both ends and of all cuts in two, from short stretches to long ones."""
    n, seq = x["n"], x["seq"].tolist()
    best = np.zeros((n, n), int)
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            ends = best[i + 1, j - 1] + (seq[i] + seq[j] == 3) if length > 1 else 0
            cuts = [best[i, k] + best[k + 1, j] for k in range(i, j)]
            best[i, j] = max(ends, *cuts)
    return {"best": best}


def seidel_2d(x: Arrays) -> Arrays:
    a = x["A"].copy()
    for _ in range(x["tsteps"]):
        for i in range(1, len(a) - 1):
            for j in range(1, len(a) - 1):
                a[i, j] = a[i - 1 : i + 2, j - 1 : j + 2].mean()
    return {"A": a}


def symm(x: Arrays) -> Arrays:
    whole = np.tril(x["A"]) + np.tril(x["A"], -1).T
    return {"C": x["beta"] * x["C"] + x["alpha"] * whole @ x["B"]}


def lower_update(x: Arrays, gain: Any) -> Arrays:
    """C = beta C + alpha gain, below and on the diagonal only."""
    return {"C": np.tril(x["beta"] * x["C"] + x["alpha"] * gain) + np.triu(x["C"], 1)}


def trmm(x: Arrays) -> Arrays:
    unit = np.tril(x["A"], -1) + np.eye(x["m"])
    return {"B": x["alpha"] * unit.T @ x["B"]}


MATHEMATICS: dict[str, Callable[[Arrays], Arrays]] = {
    "2mm": product_2mm,
    "3mm": product_3mm,
    "adi": adi,
    "atax": lambda x: {"Ax": x["A"] @ x["x"], "y": x["A"].T @ (x["A"] @ x["x"])},
    "bicg": lambda x: {"s": x["A"].T @ x["r"], "q": x["A"] @ x["p"]},
    "cholesky": cholesky,
    "correlation": correlation,
    "covariance": covariance,
    "deriche": deriche,
    "doitgen": lambda x: {"A": x["A"] @ x["C"]},
    "durbin": durbin,
    "fdtd-2d": fdtd,
    "floyd-warshall": floyd_warshall,
    "gemm": lambda x: {"C": x["beta"] * x["C"] + x["alpha"] * x["A"] @ x["B"]},
    "gemver": gemver,
    "gesummv": lambda x: {"y": x["alpha"] * x["A"] @ x["x"] + x["beta"] * x["B"] @ x["x"]},
    "gramschmidt": gramschmidt,
    "heat-3d": heat_3d,
    "jacobi-1d": jacobi_1d,
    "jacobi-2d": jacobi_2d,
    "lu": lu,
    "ludcmp": ludcmp,
    "mvt": lambda x: {"x1": x["x1"] + x["A"] @ x["y1"], "x2": x["x2"] + x["A"].T @ x["y2"]},
    "nussinov": nussinov,
    "seidel-2d": seidel_2d,
    "symm": symm,
    "syr2k": lambda x: lower_update(x, x["A"] @ x["B"].T + x["B"] @ x["A"].T),
    "syrk": lambda x: lower_update(x, x["A"] @ x["A"].T),
    "trisolv": lambda x: {"x": np.linalg.solve(np.tril(x["L"]), x["b"])},
    "trmm": trmm,
}


@pytest.mark.drawn(3)
@pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", SHAPED)
def test_mathematics(name: str) -> None:
    kernel = KERNELS[name]
    inputs = make_inputs(kernel, kernel.at("MINI"), seed=7)
    after = reference(kernel, inputs)
    assert after is not None
    rounding = 1e-4 if kernel.dtype == "float" else 1e-9
    for array, right in MATHEMATICS[name](inputs).items():
        np.testing.assert_allclose(
            after[array], right, rtol=rounding, atol=rounding, err_msg=f"{name}: {array}"
        )


def test_every_shape_has_its_mathematics() -> None:
    assert set(MATHEMATICS) == set(SHAPED)
    assert len(SHAPED) == 30
