/* Levinson and Durbin's recursion: the Yule-Walker system of r, solved one order after another. */
#ifndef EXTENT_n
#define EXTENT_n 2000
#endif
#include "kernel.h"

void kernel_durbin(int n, DATA VECTOR(r, n), DATA VECTOR(y, n))
{
    DATA z[EXTENT(n)];
    DATA alpha, beta, sum;
    int i, k;

#pragma scop
    y[0] = -r[0];
    beta = REAL(1.0);
    alpha = -r[0];
    for (k = 1; k < BOUND(n); k++) {
        beta = (1 - alpha * alpha) * beta;
        sum = REAL(0.0);
        for (i = 0; i < k; i++)
            sum += r[k - i - 1] * y[i];
        alpha = -(r[k] + sum) / beta;
        for (i = 0; i < k; i++)
            z[i] = y[i] + alpha * y[k - i - 1];
        for (i = 0; i < k; i++)
            y[i] = z[i];
        y[k] = alpha;
    }
#pragma endscop
}
