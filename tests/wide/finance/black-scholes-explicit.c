/* Black and Scholes by explicit differences: a call on a grid of prices, backwards in time. */
#ifndef EXTENT_n
#define EXTENT_n 3000
#endif
#ifndef EXTENT_steps
#define EXTENT_steps 8000
#endif
#define N EXTENT_n
#define STEPS EXTENT_steps

void kernel_black_scholes_explicit(int steps, int n, double sigma, double rate, double dt,
                                   double V[N], double W[N])
{
    int t, i;
    double a, b, c;

#pragma scop
    for (t = 0; t < STEPS; t++) {
        for (i = 1; i < N - 1; i++) {
            a = 0.5 * dt * (sigma * sigma * i * i - rate * i);
            b = 1.0 - dt * (sigma * sigma * i * i + rate);
            c = 0.5 * dt * (sigma * sigma * i * i + rate * i);
            W[i] = a * V[i - 1] + b * V[i] + c * V[i + 1];
        }
        W[0] = V[0] * (1.0 - rate * dt);
        W[N - 1] = 2.0 * W[N - 2] - W[N - 3];
        for (i = 0; i < N; i++)
            V[i] = W[i];
    }
#pragma endscop
}
