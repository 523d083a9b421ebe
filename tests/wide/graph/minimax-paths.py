"""The lowest pass between any two places."""


def kernel_minimax_paths(height):
    n = height.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                height[i, j] = min(height[i, j], max(height[i, k], height[k, j]))
