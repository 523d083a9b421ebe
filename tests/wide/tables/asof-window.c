/* For every row the latest known entry of the last REACH rows before it, else the default. */
#include <stdint.h>
#define REACH 6

void kernel_asof_window(int n, int m, float missing, const uint8_t known[n][m],
                        const float quote[n][m], float out[n][m])
{
#pragma scop
    for (int t = 0; t < n; t++)
        for (int c = 0; c < m; c++) {
            float last = missing;
            for (int d = REACH; d >= 1; d--)
                if (t - d >= 0)
                    last = known[t - d][c] ? quote[t - d][c] : last;
            out[t][c] = last;
        }
#pragma endscop
}
