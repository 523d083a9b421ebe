/* Smagorinsky's eddy viscosity from velocities in a box, one-sided at its walls, smoothed once. */
#include <math.h>

void kernel_eddy_viscosity(int nz, int ny, int nx, float cs, float delta, float u[nz][ny][nx],
                           float v[nz][ny][nx], float w[nz][ny][nx], float nut[nz][ny][nx],
                           float smooth[nz][ny][nx], float stats[3])
{
    int i, j, k;
    float largest, sum;
    int below;

#pragma scop
    largest = 0.0f;
    for (k = 0; k < nz; k++)
        for (j = 0; j < ny; j++)
            for (i = 0; i < nx; i++) {
                int im = i > 0 ? i - 1 : 0, ip = i < nx - 1 ? i + 1 : nx - 1;
                int jm = j > 0 ? j - 1 : 0, jp = j < ny - 1 ? j + 1 : ny - 1;
                int km = k > 0 ? k - 1 : 0, kp = k < nz - 1 ? k + 1 : nz - 1;
                float h = 0.5f / delta;
                float s11 = h * (u[k][j][ip] - u[k][j][im]);
                float s22 = h * (v[k][jp][i] - v[k][jm][i]);
                float s33 = h * (w[kp][j][i] - w[km][j][i]);
                float s12 = 0.5f * h * (u[k][jp][i] - u[k][jm][i] + v[k][j][ip] - v[k][j][im]);
                float s13 = 0.5f * h * (u[kp][j][i] - u[km][j][i] + w[k][j][ip] - w[k][j][im]);
                float s23 = 0.5f * h * (v[kp][j][i] - v[km][j][i] + w[k][jp][i] - w[k][jm][i]);
                float ss = s11 * s11 + s22 * s22 + s33 * s33 + 2.0f * (s12 * s12 + s13 * s13 + s23 * s23);
                nut[k][j][i] = (cs * delta) * (cs * delta) * sqrtf(2.0f * ss);
                largest = fmaxf(largest, nut[k][j][i]);
            }

    sum = 0.0f;
    below = 0;
    for (k = 0; k < nz; k++)
        for (j = 0; j < ny; j++)
            for (i = 0; i < nx; i++) {
                if (k == 0 || k == nz - 1 || j == 0 || j == ny - 1 || i == 0 || i == nx - 1) {
                    smooth[k][j][i] = 0.0f;
                } else {
                    smooth[k][j][i] = 0.4f * nut[k][j][i]
                        + 0.1f * (nut[k - 1][j][i] + nut[k + 1][j][i] + nut[k][j - 1][i] + nut[k][j + 1][i]
                                  + nut[k][j][i - 1] + nut[k][j][i + 1]);
                    sum += smooth[k][j][i];
                    if (smooth[k][j][i] < 0.25f * largest)
                        below++;
                }
            }
    stats[0] = largest;
    stats[1] = sum / (nx * ny * nz);
    stats[2] = below;
#pragma endscop
}
