/* A sheet of magnetic moments that turn around the field of their neighbours (Landau, Lifshitz and
   Gilbert); opposite edges meet. */
#include <math.h>

void kernel_precessing_spins(int steps, int ny, int nx, double alpha, double field, double dt,
                             double sx[ny][nx], double sy[ny][nx], double sz[ny][nx],
                             double tx[ny][nx], double ty[ny][nx], double tz[ny][nx],
                             double average[3])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int j = 0; j < ny; j++)
            for (int i = 0; i < nx; i++) {
                int e = i == nx - 1 ? 0 : i + 1;
                int w = i == 0 ? nx - 1 : i - 1;
                int n = j == ny - 1 ? 0 : j + 1;
                int s = j == 0 ? ny - 1 : j - 1;
                double hx = sx[j][e] + sx[j][w] + sx[n][i] + sx[s][i];
                double hy = sy[j][e] + sy[j][w] + sy[n][i] + sy[s][i];
                double hz = sz[j][e] + sz[j][w] + sz[n][i] + sz[s][i] + field;
                double cx = sy[j][i] * hz - sz[j][i] * hy;
                double cy = sz[j][i] * hx - sx[j][i] * hz;
                double cz = sx[j][i] * hy - sy[j][i] * hx;
                tx[j][i] = -cx - alpha * (sy[j][i] * cz - sz[j][i] * cy);
                ty[j][i] = -cy - alpha * (sz[j][i] * cx - sx[j][i] * cz);
                tz[j][i] = -cz - alpha * (sx[j][i] * cy - sy[j][i] * cx);
            }
        for (int j = 0; j < ny; j++)
            for (int i = 0; i < nx; i++) {
                double x = sx[j][i] + dt * tx[j][i];
                double y = sy[j][i] + dt * ty[j][i];
                double z = sz[j][i] + dt * tz[j][i];
                double r = 1.0 / sqrt(x * x + y * y + z * z);
                sx[j][i] = r * x;
                sy[j][i] = r * y;
                sz[j][i] = r * z;
            }
    }
    average[0] = average[1] = average[2] = 0.0;
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            average[0] += sx[j][i];
            average[1] += sy[j][i];
            average[2] += sz[j][i];
        }
    for (int d = 0; d < 3; d++)
        average[d] /= (double)nx * ny;
#pragma endscop
}
