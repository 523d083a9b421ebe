"""Image processing: edges, blur, contrast, shapes."""

import numpy as np

from numpy_programs.program import Program


def sobel_edges(image, threshold):
    grey = image.astype(np.float32)
    gx = np.zeros_like(grey)
    gy = np.zeros_like(grey)
    for weight, shift in ((1, 0), (2, 1), (1, 2)):
        rows = slice(shift, grey.shape[0] - 2 + shift)
        columns = slice(shift, grey.shape[1] - 2 + shift)
        gx[1:-1, 1:-1] += weight * (grey[rows, 2:] - grey[rows, :-2])
        gy[1:-1, 1:-1] += weight * (grey[2:, columns] - grey[:-2, columns])
    strength = np.sqrt(gx * gx + gy * gy)
    return (strength > threshold).astype(np.uint8) * np.uint8(255)


def box_blur(image, radius):
    """Means over squares, by sums along both axes."""
    size = 2 * radius + 1
    total = np.cumsum(image, axis=0)
    rows = total[size - 1 :].copy()
    rows[1:] -= total[:-size]
    total = np.cumsum(rows, axis=1)
    blurred = total[:, size - 1 :].copy()
    blurred[:, 1:] -= total[:, :-size]
    return blurred / (size * size)


def equalise(image):
    counts = np.zeros(256, dtype=np.int64)
    for value in image.ravel():
        counts[value] += 1
    total = counts.cumsum()
    first = total[counts > 0][0]
    scaled = (total - first) * 255 // max(image.size - first, 1)
    table = np.clip(scaled, 0, 255).astype(np.uint8)
    return table[image]


def erode(mask, steps):
    current = mask.copy()
    for _ in range(steps):
        inner = current[1:-1, 1:-1]
        kept = inner & current[:-2, 1:-1] & current[2:, 1:-1]
        kept &= current[1:-1, :-2] & current[1:-1, 2:]
        current = np.zeros_like(mask)
        current[1:-1, 1:-1] = kept
        if not current.any():
            break
    return current


def _picture(n, random):
    return random.integers(0, 256, (n, n + 5)).astype(np.uint8)


PROGRAMS = (
    Program(sobel_edges, lambda n, r: (_picture(n, r), 180.0), (16, 512, 4096)),
    Program(box_blur, lambda n, r: (_picture(n, r).astype(np.float64), 2), (16, 512, 4096)),
    Program(equalise, lambda n, r: (_picture(n, r),), (12, 512, 2048)),
    Program(erode, lambda n, r: (r.random((n, n)) < 0.95, 4), (16, 512, 4096)),
)
