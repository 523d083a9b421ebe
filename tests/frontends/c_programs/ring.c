/* Waves on a ring: neighbours by the remainder, of a parameter and of a constant. */
#define N 64
static inline int wrap(int i, int n) { return (i + n) % n; }

void ring(int n, int steps, double c, double *u, double *v, double *w)
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++)
            w[i] = 2.0 * v[i] - u[i] + c * (v[(i + 1) % n] - 2.0 * v[i] + v[(i - 1 + n) % n]);
        for (int i = 0; i < n; i++) {
            u[i] = v[i];
            v[i] = w[i];
        }
    }
#pragma endscop
}

void ring_of_constant_size(int steps, float u[N], float v[N])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < N; i++)
            v[i] = 0.5f * u[i] + 0.25f * (u[(i + 1) % N] + u[(i + N - 1) % N]);
        for (int i = 0; i < N; i++)
            u[i] = 0.5f * v[i] + 0.25f * (v[wrap(i + 1, N)] + v[wrap(i - 1, N)]);
    }
#pragma endscop
}
