"""One level of a Laplacian pyramid: down by two with taps 1 3 3 1, up again, and what is lost."""


def kernel_laplacian_level(h, w, h2, w2, image, narrow, down, detail):
    for y in range(h):
        for x in range(1, w2 - 1):
            left, right = image[y, 2 * x - 1], image[y, 2 * x + 2]
            narrow[y, x] = (left + 3 * image[y, 2 * x] + 3 * image[y, 2 * x + 1] + right) * 0.125
    for y in range(1, h2 - 1):
        for x in range(1, w2 - 1):
            above, below = narrow[2 * y - 1, x], narrow[2 * y + 2, x]
            down[y, x] = (above + 3 * narrow[2 * y, x] + 3 * narrow[2 * y + 1, x] + below) * 0.125
    for y in range(1, h2 - 2):
        for x in range(1, w2 - 2):
            here, east, south, last = down[y, x], down[y, x + 1], down[y + 1, x], down[y + 1, x + 1]
            detail[2 * y, 2 * x] = image[2 * y, 2 * x] - here
            detail[2 * y, 2 * x + 1] = image[2 * y, 2 * x + 1] - 0.5 * (here + east)
            detail[2 * y + 1, 2 * x] = image[2 * y + 1, 2 * x] - 0.5 * (here + south)
            detail[2 * y + 1, 2 * x + 1] = image[2 * y + 1, 2 * x + 1] - 0.25 * (
                here + east + south + last
            )
