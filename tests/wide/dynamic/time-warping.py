"""Dynamic time warping of two signals within a band around the diagonal."""


def kernel_time_warping(n, band, a, b, D):
    for i in range(n):
        for j in range(n):
            D[i, j] = 1e9
    D[0, 0] = abs(a[0] - b[0])
    for j in range(1, band + 1):
        D[0, j] = D[0, j - 1] + abs(a[0] - b[j])
    for i in range(1, n):
        for j in range(max(i - band, 0), min(i + band + 1, n)):
            if j == 0:
                D[i, j] = D[i - 1, j] + abs(a[i] - b[j])
            else:
                D[i, j] = min(min(D[i - 1, j], D[i, j - 1]), D[i - 1, j - 1]) + abs(a[i] - b[j])
