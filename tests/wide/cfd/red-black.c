/* Gauss and Seidel's iteration by colours: even and odd rows start one point apart. */
void kernel_red_black(int sweeps, int h, int w, double u[restrict 2 * h + 2][2 * w + 2],
                      double f[restrict 2 * h + 2][2 * w + 2])
{
    int t, i, j;
#pragma scop
    for (t = 0; t < sweeps; t++) {
        for (i = 1; i < 2 * h; i += 2)
            for (j = 1; j < 2 * w; j += 2)
                u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - f[i][j]);
        for (i = 2; i <= 2 * h; i += 2)
            for (j = 2; j <= 2 * w; j += 2)
                u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - f[i][j]);
        for (i = 1; i < 2 * h; i += 2)
            for (j = 2; j <= 2 * w; j += 2)
                u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - f[i][j]);
        for (i = 2; i <= 2 * h; i += 2)
            for (j = 1; j < 2 * w; j += 2)
                u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - f[i][j]);
    }
#pragma endscop
}
