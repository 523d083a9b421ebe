"""Running totals along rows and columns in Python loops."""


def kernel_prefix_both_ways(n, m, a, s):
    for i in range(n):
        s[i, 0] = a[i, 0]
        for j in range(1, m):
            s[i, j] = s[i, j - 1] + a[i, j]
    for j in range(m):
        for i in range(1, n):
            s[i, j] += s[i - 1, j]
