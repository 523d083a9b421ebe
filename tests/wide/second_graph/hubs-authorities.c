/* Hubs and authorities of a web of links by repeated sums along and against the links. */
#include <math.h>

#define ROUNDS 10

void kernel_hubs_authorities(int n, unsigned char link[n][n], double hub[n], double auth[n])
{
    int r, i, j;
    double norm;
#pragma scop
    for (i = 0; i < n; i++)
        hub[i] = 1.0;
    for (r = 0; r < ROUNDS; r++) {
        for (j = 0; j < n; j++)
            auth[j] = 0.0;
        for (i = 0; i < n; i++)
            for (j = 0; j < n; j++)
                if (link[i][j])
                    auth[j] += hub[i];
        norm = 0.0;
        for (j = 0; j < n; j++)
            norm += auth[j] * auth[j];
        norm = sqrt(norm) + 1e-30;
        for (j = 0; j < n; j++)
            auth[j] /= norm;
        for (i = 0; i < n; i++) {
            hub[i] = 0.0;
            for (j = 0; j < n; j++)
                if (link[i][j])
                    hub[i] += auth[j];
        }
        norm = 0.0;
        for (i = 0; i < n; i++)
            norm += hub[i] * hub[i];
        norm = sqrt(norm) + 1e-30;
        for (i = 0; i < n; i++)
            hub[i] /= norm;
    }
#pragma endscop
}
