"""Lines fitted around each point with tricube weights, once more with weights sparing outliers."""


def kernel_local_lines(n, width, x, y, fit, robust, spread):
    for i in range(n):
        robust[i] = 1.0
    for turn in range(2):
        total = 0.0
        for i in range(n):
            w0 = 0.0
            wx = 0.0
            wy = 0.0
            wxx = 0.0
            wxy = 0.0
            for j in range(n):
                u = abs(x[j] - x[i]) / width
                if u < 1.0:
                    c = 1.0 - u * u * u
                    w = robust[j] * c * c * c
                    d = x[j] - x[i]
                    w0 += w
                    wx += w * d
                    wy += w * y[j]
                    wxx += w * d * d
                    wxy += w * d * y[j]
            det = w0 * wxx - wx * wx
            if det > 1e-9:
                fit[i] = (wy * wxx - wx * wxy) / det
            else:
                fit[i] = y[i]
            total += abs(y[i] - fit[i])
        spread[turn] = total / n
        for i in range(n):
            e = (y[i] - fit[i]) / (6.0 * spread[turn] + 1e-12)
            robust[i] = (1.0 - e * e) * (1.0 - e * e) if abs(e) < 1.0 else 0.0
