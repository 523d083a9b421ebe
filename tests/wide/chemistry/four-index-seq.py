"""Atomic integrals to molecular ones, one index after another."""


def kernel_four_index_seq(n, eri, C, t1, t2):
    for p in range(n):
        for q in range(n):
            for r in range(n):
                for s in range(n):
                    t1[p, q, r, s] = 0.0
                    for a in range(n):
                        t1[p, q, r, s] += C[a, p] * eri[a, q, r, s]
    for p in range(n):
        for q in range(n):
            for r in range(n):
                for s in range(n):
                    t2[p, q, r, s] = 0.0
                    for a in range(n):
                        t2[p, q, r, s] += C[a, q] * t1[p, a, r, s]
    for p in range(n):
        for q in range(n):
            for r in range(n):
                for s in range(n):
                    t1[p, q, r, s] = 0.0
                    for a in range(n):
                        t1[p, q, r, s] += C[a, r] * t2[p, q, a, s]
    for p in range(n):
        for q in range(n):
            for r in range(n):
                for s in range(n):
                    t2[p, q, r, s] = 0.0
                    for a in range(n):
                        t2[p, q, r, s] += C[a, s] * t1[p, q, r, a]
