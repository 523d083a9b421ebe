/* One step of a flock in a periodic square: keep apart, fly alike, stay together. */
#include <math.h>

#define NEAR 0.0625f
#define SEEN 0.5625f

void kernel_flock_steering(int n, float side, float dt, float px[n], float py[n], float vx[n], float vy[n],
                           float ax[n], float ay[n], int seen[n])
{
    int i, j;
#pragma scop
    for (i = 0; i < n; i++) {
        float apart_x = 0.0f, apart_y = 0.0f;
        float mean_vx = 0.0f, mean_vy = 0.0f;
        float mean_x = 0.0f, mean_y = 0.0f;
        int count = 0;
        for (j = 0; j < n; j++) {
            float dx = px[j] - px[i];
            float dy = py[j] - py[i];
            dx = dx > 0.5f * side ? dx - side : (dx < -0.5f * side ? dx + side : dx);
            dy = dy > 0.5f * side ? dy - side : (dy < -0.5f * side ? dy + side : dy);
            float d2 = dx * dx + dy * dy;
            if (j != i && d2 < SEEN) {
                count++;
                mean_vx += vx[j];
                mean_vy += vy[j];
                mean_x += dx;
                mean_y += dy;
                if (d2 < NEAR) {
                    apart_x -= dx / (d2 + 0.001f);
                    apart_y -= dy / (d2 + 0.001f);
                }
            }
        }
        seen[i] = count;
        if (count > 0) {
            ax[i] = 0.05f * apart_x + 0.5f * (mean_vx / count - vx[i]) + 0.1f * mean_x / count;
            ay[i] = 0.05f * apart_y + 0.5f * (mean_vy / count - vy[i]) + 0.1f * mean_y / count;
        } else {
            ax[i] = 0.0f;
            ay[i] = 0.0f;
        }
    }
    for (i = 0; i < n; i++) {
        vx[i] += dt * ax[i];
        vy[i] += dt * ay[i];
        float speed = sqrtf(vx[i] * vx[i] + vy[i] * vy[i]);
        if (speed > 1.0f) {
            vx[i] /= speed;
            vy[i] /= speed;
        }
        px[i] += dt * vx[i];
        py[i] += dt * vy[i];
    }
#pragma endscop
}
