"""SimRank: two places are alike when those that point to them are."""


def kernel_sim_rank(rounds, n, decay, adj, w, s, half, moved):
    for j in range(n):
        count = 0.0
        for i in range(n):
            count += adj[i, j]
        for i in range(n):
            w[i, j] = adj[i, j] / count if count > 0.0 else 0.0
    for i in range(n):
        for j in range(n):
            s[i, j] = 1.0 if i == j else 0.0
    for t in range(rounds):
        change = 0.0
        for i in range(n):
            for j in range(n):
                half[i, j] = 0.0
                for k in range(n):
                    half[i, j] += s[i, k] * w[k, j]
        for i in range(n):
            for j in range(i):
                total = 0.0
                for k in range(n):
                    total += w[k, i] * half[k, j]
                total *= decay
                change = max(change, abs(total - s[i, j]))
                s[i, j] = total
        for i in range(n):
            for j in range(i + 1, n):
                s[i, j] = s[j, i]
        moved[t] = change
