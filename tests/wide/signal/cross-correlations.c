/* Correlations of all pairs of channels at lags to both sides. */
#ifndef EXTENT_channels
#define EXTENT_channels 16
#define EXTENT_n 24000
#endif

#define REACH 8
#define LAGS (2 * REACH + 1)

void kernel_cross_correlations(int channels, int n, double x[EXTENT_channels][EXTENT_n],
                               double r[EXTENT_channels][EXTENT_channels][17])
{
#pragma scop
    for (int a = 0; a < channels; a++)
        for (int b = a; b < channels; b++)
            for (int l = 0; l < LAGS; l++) {
                r[a][b][l] = 0.0;
                for (int i = REACH; i < n - REACH; i++)
                    r[a][b][l] += x[a][i] * x[b][i + l - REACH];
                r[b][a][LAGS - 1 - l] = r[a][b][l];
            }
#pragma endscop
}
