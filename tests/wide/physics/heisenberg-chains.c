/* Classical spins in chains: each turns about the field of its neighbours, then is made unit. */
#include <math.h>

void kernel_heisenberg_chains(int steps, int chains, int n, double dt, double s[chains][n][3],
                              double next[chains][n][3])
{
    int t, c, i, k;

#pragma scop
    for (t = 0; t < steps; t++) {
        for (c = 0; c < chains; c++)
            for (i = 1; i < n - 1; i++) {
                double b[3];
                double norm = 0.0;
                for (k = 0; k < 3; k++)
                    b[k] = s[c][i - 1][k] + s[c][i + 1][k];
                next[c][i][0] = s[c][i][0] + dt * (s[c][i][1] * b[2] - s[c][i][2] * b[1]);
                next[c][i][1] = s[c][i][1] + dt * (s[c][i][2] * b[0] - s[c][i][0] * b[2]);
                next[c][i][2] = s[c][i][2] + dt * (s[c][i][0] * b[1] - s[c][i][1] * b[0]);
                for (k = 0; k < 3; k++)
                    norm += next[c][i][k] * next[c][i][k];
                norm = 1.0 / sqrt(norm);
                for (k = 0; k < 3; k++)
                    next[c][i][k] *= norm;
            }
        for (c = 0; c < chains; c++)
            for (i = 1; i < n - 1; i++)
                for (k = 0; k < 3; k++)
                    s[c][i][k] = next[c][i][k];
    }
#pragma endscop
}
