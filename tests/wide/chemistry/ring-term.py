"""The ring term of coupled clusters."""


def kernel_ring_term(no, nv, w, t, r):
    for i in range(no):
        for j in range(no):
            for a in range(nv):
                for b in range(nv):
                    for k in range(no):
                        for c in range(nv):
                            r[i, j, a, b] += w[k, b, c, j] * (2 * t[i, k, a, c] - t[k, i, a, c])
