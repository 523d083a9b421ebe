/* The greatest of windows three by three, two apart, of every channel. */
#ifndef EXTENT_c
#define EXTENT_c 64
#define EXTENT_oh 120
#define EXTENT_ow 120
#endif

void kernel_max_pool(int c, int oh, int ow, float in[EXTENT_c][2 * EXTENT_oh + 1][2 * EXTENT_ow + 1],
                     float out[EXTENT_c][EXTENT_oh][EXTENT_ow])
{
    int k, y, x, a, b;
#pragma scop
    for (k = 0; k < c; k++)
        for (y = 0; y < oh; y++)
            for (x = 0; x < ow; x++) {
                float best = in[k][2 * y][2 * x];
                for (a = 0; a < 3; a++)
                    for (b = 0; b < 3; b++)
                        if (in[k][2 * y + a][2 * x + b] > best)
                            best = in[k][2 * y + a][2 * x + b];
                out[k][y][x] = best;
            }
#pragma endscop
}
