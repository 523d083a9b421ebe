"""Length of the longest common subsequence of two texts."""


def kernel_common_subsequence(n, m, a, b, L):
    for i in range(n):
        L[i, 0] = 0
    for j in range(m):
        L[0, j] = 0
    for i in range(1, n):
        for j in range(1, m):
            if a[i] == b[j]:
                L[i, j] = L[i - 1, j - 1] + 1
            else:
                L[i, j] = max(L[i - 1, j], L[i, j - 1])
