"""American puts on a grid of prices: an implicit step relaxed, never below the payoff."""


def kernel_projected_relaxation(steps, sweeps, n, r, sigma, strike, dt, v, rhs, payoff, boundary):
    h = 3.0 * strike / (n - 1)
    for i in range(n):
        payoff[i] = max(strike - i * h, 0.0)
        v[i] = payoff[i]
    for t in range(steps):
        for i in range(n):
            rhs[i] = v[i]
        for _ in range(sweeps):
            for i in range(1, n - 1):
                a = 0.5 * dt * (sigma * sigma * i * i - r * i)
                b = 1.0 + dt * (sigma * sigma * i * i + r)
                c = 0.5 * dt * (sigma * sigma * i * i + r * i)
                y = (rhs[i] + a * v[i - 1] + c * v[i + 1]) / b
                y = v[i] + 1.2 * (y - v[i])
                v[i] = max(y, payoff[i])
        last = 0.0
        for i in range(1, n - 1):
            if v[i] <= payoff[i] and payoff[i] > 0.0:
                last = i * h
        boundary[t] = last
