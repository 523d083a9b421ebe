"""The longest subsequence that rises, and the heaviest, of many series of integers."""


def kernel_rising_runs(series, n, x, length, weight, longest, heaviest):
    for s in range(series):
        most = 0
        total = 0
        for i in range(n):
            length[s, i] = 1
            weight[s, i] = x[s, i]
            for j in range(i):
                if x[s, j] < x[s, i]:
                    if length[s, j] + 1 > length[s, i]:
                        length[s, i] = length[s, j] + 1
                    if weight[s, j] + x[s, i] > weight[s, i]:
                        weight[s, i] = weight[s, j] + x[s, i]
            most = max(most, length[s, i])
            total = max(total, weight[s, i])
        longest[s] = most
        heaviest[s] = total
