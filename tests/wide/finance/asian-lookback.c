/* Mean, highest and lowest price of every path; all paths take a step before the next step. */
#include <math.h>

void kernel_asian_lookback(int steps, int paths, float spot, float strike, float drift, float vol,
                           const float z[restrict steps][paths], float price[restrict paths],
                           float mean[restrict paths], float top[restrict paths],
                           float bottom[restrict paths], float payoff[restrict paths])
{
#pragma scop
    for (int p = 0; p < paths; p++) {
        price[p] = spot;
        mean[p] = 0.0f;
        top[p] = spot;
        bottom[p] = spot;
    }
    for (int t = 0; t < steps; t++)
        for (int p = 0; p < paths; p++) {
            price[p] *= 1.0f + drift + vol * z[t][p];
            mean[p] += price[p];
            top[p] = price[p] > top[p] ? price[p] : top[p];
            bottom[p] = price[p] < bottom[p] ? price[p] : bottom[p];
        }
    for (int p = 0; p < paths; p++) {
        mean[p] /= steps;
        payoff[p] = fmaxf(mean[p] - strike, 0.0f) + 0.1f * (top[p] - bottom[p]);
    }
#pragma endscop
}
