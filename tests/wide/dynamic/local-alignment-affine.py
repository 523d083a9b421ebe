"""Local alignment with gaps that cost more to open than to extend, and the best of every row."""


def kernel_local_alignment_affine(n, m, open_, extend, q, d, H, E, F, best):
    for j in range(m):
        H[0, j] = 0
        E[0, j] = 0
        F[0, j] = 0
    best[0] = 0
    for i in range(1, n):
        H[i, 0] = 0
        E[i, 0] = 0
        F[i, 0] = 0
        best[i] = 0
        for j in range(1, m):
            E[i, j] = max(E[i, j - 1] - extend, H[i, j - 1] - open_)
            F[i, j] = max(F[i - 1, j] - extend, H[i - 1, j] - open_)
            h = max(0, H[i - 1, j - 1] + (5 if q[i] == d[j] else -4))
            h = max(h, E[i, j])
            h = max(h, F[i, j])
            H[i, j] = h
            best[i] = max(best[i], h)
