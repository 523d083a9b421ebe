"""Binomial blur of five taps, along rows into a buffer and then along columns."""


def kernel_separable_blur(h, w, image, rows, out):
    for y in range(h):
        for x in range(2, w - 2):
            rows[y, x] = 0.0625 * (
                image[y, x - 2]
                + 4 * image[y, x - 1]
                + 6 * image[y, x]
                + 4 * image[y, x + 1]
                + image[y, x + 2]
            )
    for y in range(2, h - 2):
        for x in range(2, w - 2):
            out[y, x] = 0.0625 * (
                rows[y - 2, x]
                + 4 * rows[y - 1, x]
                + 6 * rows[y, x]
                + 4 * rows[y + 1, x]
                + rows[y + 2, x]
            )
