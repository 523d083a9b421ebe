/* Short and long moving averages of many series by running sums, and where they cross. */
#define SHORT 8
#define LONG 32

void kernel_moving_averages(int series, int n, float price[series][n], float fast[series][n],
                            float slow[series][n], int signal[series][n])
{
    int s, t;

#pragma scop
    for (s = 0; s < series; s++) {
        float a = 0.0f, b = 0.0f;
        for (t = 0; t < n; t++) {
            a += price[s][t];
            b += price[s][t];
            if (t >= SHORT)
                a -= price[s][t - SHORT];
            if (t >= LONG)
                b -= price[s][t - LONG];
            fast[s][t] = a / SHORT;
            slow[s][t] = b / LONG;
        }
        signal[s][0] = 0;
        for (t = 1; t < n; t++)
            signal[s][t] = fast[s][t] > slow[s][t] && fast[s][t - 1] <= slow[s][t - 1]
                               ? 1
                               : (fast[s][t] < slow[s][t] && fast[s][t - 1] >= slow[s][t - 1] ? -1
                                                                                              : 0);
    }
#pragma endscop
}
