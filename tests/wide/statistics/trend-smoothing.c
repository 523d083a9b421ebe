/* Exponential smoothing with a trend (Holt): level and slope of many series, stored time by time,
   and the squared errors of the forecasts. */
#ifndef EXTENT_times
#define EXTENT_times 2000
#define EXTENT_series 2500
#endif
#include "kernel.h"

void kernel_trend_smoothing(int times, int series, DATA alpha, DATA beta, DATA MATRIX(y, times, series),
                            DATA VECTOR(level, series), DATA VECTOR(slope, series),
                            DATA VECTOR(error, series))
{
    int t, s;
    DATA guess, before;

#pragma scop
    for (s = 0; s < BOUND(series); s++) {
        level[s] = y[0][s];
        slope[s] = y[1][s] - y[0][s];
        error[s] = 0;
    }
    for (s = 0; s < BOUND(series); s++)
        for (t = 1; t < BOUND(times); t++) {
            guess = level[s] + slope[s];
            error[s] += (y[t][s] - guess) * (y[t][s] - guess);
            before = level[s];
            level[s] = alpha * y[t][s] + (1 - alpha) * guess;
            slope[s] = beta * (level[s] - before) + (1 - beta) * slope[s];
        }
#pragma endscop
}
