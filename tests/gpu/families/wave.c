/* The wave equation: three levels in time, moved on after each step. */
void wave(int t, int n, int m, double old[n][m], double now[n][m], double next[n][m])
{
#pragma scop
    for (int s = 0; s < t; s++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                next[i][j] = 2.0 * now[i][j] - old[i][j] +
                             0.1 * (now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1] -
                                    4.0 * now[i][j]);
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++) {
                old[i][j] = now[i][j];
                now[i][j] = next[i][j];
            }
    }
#pragma endscop
}
