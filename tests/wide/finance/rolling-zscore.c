/* How many deviations a price lies from the mean of its last WINDOW days, series by series. */
#include <math.h>
#define WINDOW 20

void kernel_rolling_zscore(int series, int days, double x[series][days], double z[series][days])
{
#pragma scop
    for (int s = 0; s < series; s++) {
        for (int t = 0; t < WINDOW - 1; t++)
            z[s][t] = 0.0;
        for (int t = WINDOW - 1; t < days; t++) {
            double mean = 0.0, square = 0.0;
            for (int k = 0; k < WINDOW; k++)
                mean += x[s][t - k];
            mean /= WINDOW;
            for (int k = 0; k < WINDOW; k++)
                square += (x[s][t - k] - mean) * (x[s][t - k] - mean);
            z[s][t] = (x[s][t] - mean) / sqrt(square / (WINDOW - 1) + 1e-9);
        }
    }
#pragma endscop
}
