"""Patterns of the Gray-Scott reaction: plain NumPy under `@lw.jit`, equal to NumPy bit for bit.

Two substances diffuse; v feeds on u and decays. From a few drops of v grow corals and mazes
(J. E. Pearson, Complex Patterns in a Simple System, Science 261, 1993). The whole time loop is one
compiled function: slices are views, right sides are read before anything is written.

`python examples/reaction_diffusion.py` prints the times of NumPy, of Loopwright and, where it is
installed, of numba. `--picture FILE.png` writes an animation (an animated PNG), `--steps N` and
`--side N` choose the size.
"""

import argparse
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

import loopwright as lw

try:
    import numba
except ImportError:
    numba = None

STEPS_PER_FRAME, FRAMES, COLOURS = 100, 60, 24


def react(u, v, steps, feed, kill):
    """Advance both concentrations in place; the border keeps its values."""
    inner_u, inner_v = u[1:-1, 1:-1], v[1:-1, 1:-1]
    for _ in range(steps):
        spread_u = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inner_u
        spread_v = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * inner_v
        reaction = inner_u * inner_v * inner_v
        inner_u += 0.16 * spread_u - reaction + feed * (1 - inner_u)
        inner_v += 0.08 * spread_v + reaction - (feed + kill) * inner_v


def start(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Only u, and a few square drops of v."""
    random = np.random.default_rng(3)
    u, v = np.ones((side, side)), np.zeros((side, side))
    for row, column in random.integers(side // 8, side - side // 8, (12, 2)):
        u[row : row + side // 24 + 1, column : column + side // 24 + 1] = 0.5
        v[row : row + side // 24 + 1, column : column + side // 24 + 1] = 0.25
    return u, v


def timed(function: Callable[..., None], side: int, steps: int) -> tuple[float, list[np.ndarray]]:
    """Seconds of a run from the start, and the two concentrations after it."""
    u, v = start(side)
    begin = time.perf_counter()
    function(u, v, steps, 0.0545, 0.062)
    return time.perf_counter() - begin, [u, v]


def compare(side: int, steps: int) -> None:
    """Run NumPy, Loopwright and numba, print their times, and compare the bits with NumPy's."""
    seconds, expected = timed(react, side, steps)
    print(f"{side} x {side}, {steps} steps")
    print(f"numpy       {seconds:8.3f} s")
    engines = {"loopwright": lw.jit(react)}
    if numba is not None:
        engines["numba"] = numba.njit(react)
    for name, engine in engines.items():
        first, _ = timed(engine, side, 1)
        spent, found = timed(engine, side, steps)
        same = all(x.tobytes() == y.tobytes() for x, y in zip(found, expected, strict=True))
        bits = "the bits of NumPy" if same else "other bits than NumPy"
        times = f"{spent:8.3f} s, {seconds / spent:5.1f} x, first call {first:.2f} s"
        print(f"{name:11} {times}, {bits}")


def animate(file: Path, side: int, count: int = FRAMES) -> None:
    """Write v over time as an animated PNG."""
    advance = lw.jit(react)
    u, v = start(side)
    frames = []
    for _ in range(count):
        frames.append(np.clip(v / 0.4 * COLOURS, 0, COLOURS - 1).astype(np.uint8))
        advance(u, v, STEPS_PER_FRAME, 0.0545, 0.062)
    file.write_bytes(animated_png(frames, palette()))
    print(f"{file.name}: {len(frames)} frames, {file.stat().st_size // 1024} KiB")


def palette() -> bytes:
    """Colours from dark blue over turquoise to pale yellow, three bytes each."""
    stops = np.array([[13, 27, 62], [24, 92, 124], [62, 166, 142], [244, 241, 187]])
    at = np.linspace(0, len(stops) - 1, COLOURS)
    channels = [np.interp(at, range(len(stops)), stops[:, k]) for k in range(3)]
    return np.stack(channels, axis=1).astype(np.uint8).tobytes()


def animated_png(frames: list[np.ndarray], colours: bytes) -> bytes:
    """An animated PNG of frames whose elements number colours, 12 frames a second."""
    height, width = frames[0].shape
    parts = [
        chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        chunk(b"acTL", struct.pack(">II", len(frames), 0)),
        chunk(b"PLTE", colours),
    ]
    count = 0
    for number, frame in enumerate(frames):
        timing = struct.pack(">IIIIIHHBB", count, width, height, 0, 0, 1, 12, 0, 0)
        parts.append(chunk(b"fcTL", timing))
        count += 1
        rows = np.pad(frame, ((0, 0), (1, 0)))  # the first byte of a row: it is not filtered
        data = zlib.compress(rows.tobytes(), 9)
        if number == 0:
            parts.append(chunk(b"IDAT", data))
        else:
            parts.append(chunk(b"fdAT", struct.pack(">I", count) + data))
            count += 1
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description="Gray-Scott patterns by NumPy code, compiled")
    parser.add_argument("--side", type=int, default=128, help="rows and columns (128)")
    parser.add_argument("--steps", type=int, default=300, help="time steps that are timed (300)")
    parser.add_argument("--picture", type=Path, help="write an animated PNG into this file")
    given = parser.parse_args()
    if given.picture is None:
        compare(given.side, given.steps)
    else:
        animate(given.picture, given.side)


if __name__ == "__main__":
    main()
