/* Conway's game of life; the rule is a function of the cell and its neighbours. */
#include <stdint.h>

static inline uint8_t rule(uint8_t alive, int neighbours)
{
    if (alive)
        return neighbours == 2 || neighbours == 3;
    return neighbours == 3;
}

static int count(int n, int m, uint8_t g[n][m], int i, int j)
{
    int total = 0;
    for (int di = -1; di <= 1; di++)
        for (int dj = -1; dj <= 1; dj++)
            if (di != 0 || dj != 0)
                total += g[i + di][j + dj];
    return total;
}

void life(int n, int m, int steps, uint8_t a[restrict n][m], uint8_t b[restrict n][m])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                b[i][j] = rule(a[i][j], count(n, m, a, i, j));
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                a[i][j] = b[i][j];
    }
#pragma endscop
}
