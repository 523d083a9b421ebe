/* Grains in a box: springs and dashpots where two overlap, friction turns them, walls push back. */
#include <math.h>

#define MU 0.25f

void kernel_granular_contacts(int n, int steps, float box, float stiff, float damp, float dt, float x[n],
                              float y[n], float vx[n], float vy[n], float spin[n], float rad[n],
                              float fx[n], float fy[n], float torque[n], int touching[n])
{
    int i, j, t;

#pragma scop
    for (t = 0; t < steps; t++) {
        for (i = 0; i < n; i++) {
            fx[i] = 0.0f;
            fy[i] = -1.0f;
            torque[i] = 0.0f;
            touching[i] = 0;
            for (j = 0; j < n; j++) {
                float dx = x[i] - x[j];
                float dy = y[i] - y[j];
                float reach = rad[i] + rad[j];
                float d2 = dx * dx + dy * dy;
                if (j != i && d2 < reach * reach && d2 > 0.0f) {
                    float d = sqrtf(d2);
                    float nx = dx / d, ny = dy / d;
                    float vn = (vx[i] - vx[j]) * nx + (vy[i] - vy[j]) * ny;
                    float vt = (vy[i] - vy[j]) * nx - (vx[i] - vx[j]) * ny - rad[i] * spin[i] - rad[j] * spin[j];
                    float push = stiff * (reach - d) - damp * vn;
                    if (push < 0.0f)
                        push = 0.0f;
                    float rub = vt > 0.0f ? -MU * push : MU * push;
                    fx[i] += push * nx - rub * ny;
                    fy[i] += push * ny + rub * nx;
                    torque[i] -= rad[i] * rub;
                    touching[i]++;
                }
            }
            if (x[i] < rad[i])
                fx[i] += stiff * (rad[i] - x[i]);
            else if (x[i] > box - rad[i])
                fx[i] -= stiff * (x[i] - box + rad[i]);
            if (y[i] < rad[i])
                fy[i] += stiff * (rad[i] - y[i]);
        }
        for (i = 0; i < n; i++) {
            vx[i] += dt * fx[i];
            vy[i] += dt * fy[i];
            spin[i] += dt * torque[i];
            x[i] += dt * vx[i];
            y[i] += dt * vy[i];
        }
    }
#pragma endscop
}
