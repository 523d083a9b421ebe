/* Pressure of a flow around obstacles: damped Jacobi sweeps, walls and solids give no flux. */
#ifndef EXTENT_h
#define EXTENT_h 600
#endif
#ifndef EXTENT_w
#define EXTENT_w 700
#endif
#define H EXTENT_h
#define W EXTENT_w
#define OMEGA 0.8f

void kernel_jacobi_obstacles(int sweeps, int h, int w, float p[H][W], float next[H][W], float div[H][W],
                             unsigned char solid[H][W])
{
#pragma scop
    for (int s = 0; s < sweeps; s++) {
        for (int y = 1; y < h - 1; y++) {
            for (int x = 1; x < w - 1; x++) {
                if (solid[y][x] > 200) {
                    next[y][x] = 0.0f;
                } else {
                    float sum = 0.0f;
                    int open = 0;
                    if (solid[y][x - 1] <= 200) {
                        sum += p[y][x - 1];
                        open++;
                    }
                    if (solid[y][x + 1] <= 200) {
                        sum += p[y][x + 1];
                        open++;
                    }
                    if (solid[y - 1][x] <= 200) {
                        sum += p[y - 1][x];
                        open++;
                    }
                    if (solid[y + 1][x] <= 200) {
                        sum += p[y + 1][x];
                        open++;
                    }
                    float fresh = open > 0 ? (sum - div[y][x]) / open : 0.0f;
                    next[y][x] = p[y][x] + OMEGA * (fresh - p[y][x]);
                }
            }
        }
        for (int y = 1; y < h - 1; y++)
            for (int x = 1; x < w - 1; x++)
                p[y][x] = next[y][x];
    }
#pragma endscop
}
