"""Two separable smoothings, narrow and wide; the narrow one is kept where they disagree."""


def kernel_filters_select(n, m, limit, inp, across, narrow, along, wide, out):
    for i in range(n):
        for j in range(1, m - 1):
            across[i, j] = 0.25 * inp[i, j - 1] + 0.5 * inp[i, j] + 0.25 * inp[i, j + 1]
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            narrow[i, j] = 0.25 * across[i - 1, j] + 0.5 * across[i, j] + 0.25 * across[i + 1, j]
    for i in range(n):
        for j in range(3, m - 3):
            left = inp[i, j - 3] + inp[i, j - 2] + inp[i, j - 1]
            along[i, j] = 0.125 * (
                left + 2 * inp[i, j] + inp[i, j + 1] + inp[i, j + 2] + inp[i, j + 3]
            )
    for i in range(3, n - 3):
        for j in range(3, m - 3):
            above = along[i - 3, j] + along[i - 2, j] + along[i - 1, j]
            wide[i, j] = 0.125 * (
                above + 2 * along[i, j] + along[i + 1, j] + along[i + 2, j] + along[i + 3, j]
            )
    for i in range(3, n - 3):
        for j in range(3, m - 3):
            gap = narrow[i, j] - wide[i, j]
            out[i, j] = narrow[i, j] if gap * gap > limit else wide[i, j]
