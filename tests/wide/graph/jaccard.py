"""How alike the neighbourhoods of all pairs are."""


def kernel_jaccard(n, adj, degree, alike):
    for i in range(n):
        degree[i] = 0
        for k in range(n):
            degree[i] += adj[i, k]
    for i in range(n):
        for j in range(i + 1):
            both = 0.0
            for k in range(n):
                both += adj[i, k] * adj[j, k]
            alike[i, j] = both / (degree[i] + degree[j] - both + 1.0)
            alike[j, i] = alike[i, j]
