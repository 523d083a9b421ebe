/* Half the mean squared difference of a field at every lag up to seven, to the right and below. */
#define LAGS 8

void kernel_variogram(int n, int m, double field[n][m], double gamma[LAGS][LAGS])
{
    int dy, dx, i, j;
    double diff;

#pragma scop
    for (dy = 0; dy < LAGS; dy++)
        for (dx = 0; dx < LAGS; dx++) {
            gamma[dy][dx] = 0;
            for (i = 0; i < n - dy; i++)
                for (j = 0; j < m - dx; j++) {
                    diff = field[i + dy][j + dx] - field[i][j];
                    gamma[dy][dx] += diff * diff;
                }
            gamma[dy][dx] /= 2.0 * (n - dy) * (m - dx);
        }
#pragma endscop
}
