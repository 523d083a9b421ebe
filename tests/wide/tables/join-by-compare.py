"""A join without an index in Python loops."""


def kernel_join_by_compare(n, m, left, right, value, matches, total):
    for i in range(n):
        matches[i] = 0
        total[i] = 0
        for j in range(m):
            if left[i] == right[j]:
                matches[i] += 1
                total[i] += value[j]
