"""The cheapest order of a chain of matrix products, by the length of the stretch."""


def kernel_matrix_chain(n, n1, p, cost):
    for i in range(n):
        cost[i, i] = 0
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i, j] = 9007199254740992.0
            for k in range(i, j):
                c = cost[i, k] + cost[k + 1, j] + p[i] * p[k + 1] * p[j + 1]
                if c < cost[i, j]:
                    cost[i, j] = c
