/* Two substances that react and spread (Gray and Scott); two time levels by turns. */
void kernel_gray_scott(int steps, int n, float F, float k, float u[2][n][n], float v[2][n][n])
{
    const float du = 0.16f, dv = 0.08f;

#pragma scop
    for (int t = 0; t < steps; t++)
        for (int i = 1; i <= n - 2; i++)
            for (int j = 1; j <= n - 2; j++) {
                float a = u[t % 2][i][j], b = v[t % 2][i][j];
                float lu = u[t % 2][i - 1][j] + u[t % 2][i + 1][j] + u[t % 2][i][j - 1]
                           + u[t % 2][i][j + 1] - 4 * a;
                float lv = v[t % 2][i - 1][j] + v[t % 2][i + 1][j] + v[t % 2][i][j - 1]
                           + v[t % 2][i][j + 1] - 4 * b;
                float r = a * b * b;
                u[(t + 1) % 2][i][j] = a + du * lu - r + F * (1 - a);
                v[(t + 1) % 2][i][j] = b + dv * lv + r - (F + k) * b;
            }
#pragma endscop
}
