/* Ising spins, Metropolis sweeps over a checkerboard; given numbers say which spins may turn. */
#include <stdint.h>

void kernel_ising_checkerboard(int sweeps, int n, const float chance[5],
                               const float draw[restrict sweeps][n][n], int8_t s[restrict n][n])
{
#pragma scop
    for (int t = 0; t < sweeps; t++)
        for (int colour = 0; colour < 2; colour++)
            for (int i = 1; i < n - 1; i++)
                for (int j = 1; j < n - 1; j++)
                    if ((i + j) % 2 == colour) {
                        int around = s[i - 1][j] + s[i + 1][j] + s[i][j - 1] + s[i][j + 1];
                        int cost = s[i][j] * around;
                        float p = cost <= 0 ? 1.0f : (cost == 2 ? chance[2] : chance[4]);
                        s[i][j] = draw[t][i][j] < p ? -s[i][j] : s[i][j];
                    }
#pragma endscop
}
