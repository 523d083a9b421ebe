/* Diffusion with a wind on a grid, solved by stabilised biconjugate gradients from zero. */
#include <math.h>
#ifndef EXTENT_iters
#define EXTENT_iters 12
#define EXTENT_ny 300
#define EXTENT_nx 400
#endif
#define NY EXTENT_ny
#define NX EXTENT_nx
#define N (NY * NX)

void kernel_stabilised_gradients(double wind, const double b[N], double x[N], double r[N], double r0[N],
                                 double p[N], double v[N], double s[N], double t[N],
                                 double history[EXTENT_iters])
{
    double rho, rho_old, alpha, omega, beta, dot1, dot2;

#pragma scop
    for (int i = 0; i < N; i++) {
        x[i] = 0.0;
        r[i] = b[i];
        r0[i] = b[i];
        p[i] = 0.0;
        v[i] = 0.0;
    }
    rho_old = alpha = omega = 1.0;
    for (int it = 0; it < EXTENT_iters; it++) {
        rho = 0.0;
        for (int i = 0; i < N; i++)
            rho += r0[i] * r[i];
        beta = rho / rho_old * (alpha / omega);
        for (int i = 0; i < N; i++)
            p[i] = r[i] + beta * (p[i] - omega * v[i]);

        /* v = A p */
        dot1 = 0.0;
        for (int j = 0; j < NY; j++)
            for (int i = 0; i < NX; i++) {
                double sum = 4.5 * p[j * NX + i];
                if (i > 0)
                    sum -= (1.0 + wind) * p[j * NX + i - 1];
                if (i < NX - 1)
                    sum -= (1.0 - wind) * p[j * NX + i + 1];
                if (j > 0)
                    sum -= p[(j - 1) * NX + i];
                if (j < NY - 1)
                    sum -= p[(j + 1) * NX + i];
                v[j * NX + i] = sum;
                dot1 += r0[j * NX + i] * sum;
            }
        alpha = fabs(dot1) > 1e-30 ? rho / dot1 : 0.0;
        for (int i = 0; i < N; i++)
            s[i] = r[i] - alpha * v[i];

        /* t = A s */
        dot1 = dot2 = 0.0;
        for (int j = 0; j < NY; j++)
            for (int i = 0; i < NX; i++) {
                double sum = 4.5 * s[j * NX + i];
                if (i > 0)
                    sum -= (1.0 + wind) * s[j * NX + i - 1];
                if (i < NX - 1)
                    sum -= (1.0 - wind) * s[j * NX + i + 1];
                if (j > 0)
                    sum -= s[(j - 1) * NX + i];
                if (j < NY - 1)
                    sum -= s[(j + 1) * NX + i];
                t[j * NX + i] = sum;
                dot1 += sum * s[j * NX + i];
                dot2 += sum * sum;
            }
        omega = dot2 > 1e-30 ? dot1 / dot2 : 1.0;
        dot2 = 0.0;
        for (int i = 0; i < N; i++) {
            x[i] += alpha * p[i] + omega * s[i];
            r[i] = s[i] - omega * t[i];
            dot2 += r[i] * r[i];
        }
        rho_old = fabs(rho) > 1e-30 ? rho : 1e-30;
        history[it] = sqrt(dot2);
    }
#pragma endscop
}
