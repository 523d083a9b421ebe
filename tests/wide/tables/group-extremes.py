"""Sums and extremes of groups in Python loops."""


def kernel_group_extremes(groups, members, columns, x, sum, least, most):
    for g in range(groups):
        for c in range(columns):
            s = x[g, 0, c]
            lo = s
            hi = s
            for k in range(1, members):
                s += x[g, k, c]
                lo = min(lo, x[g, k, c])
                hi = max(hi, x[g, k, c])
            sum[g, c] = s
            least[g, c] = lo
            most[g, c] = hi
