/* Motion vectors of blocks of 16 by 16 by full search: the smallest sum of absolute differences. */
#include <stdlib.h>
#ifndef EXTENT_bh
#define EXTENT_bh 20
#endif
#ifndef EXTENT_bw
#define EXTENT_bw 24
#endif
#define B 16
#define R 7
#define HEIGHT (B * EXTENT_bh)
#define WIDTH (B * EXTENT_bw)

void kernel_block_motion(unsigned char now[HEIGHT][WIDTH], unsigned char past[HEIGHT + 2 * R][WIDTH + 2 * R],
                         int sad[EXTENT_bh][EXTENT_bw], int move[EXTENT_bh][EXTENT_bw][2])
{
#pragma scop
    for (int by = 0; by < EXTENT_bh; by++)
        for (int bx = 0; bx < EXTENT_bw; bx++) {
            sad[by][bx] = 1 << 30;
            for (int dy = -R; dy <= R; dy++)
                for (int dx = -R; dx <= R; dx++) {
                    int sum = 0;
                    for (int y = 0; y < B; y++)
                        for (int x = 0; x < B; x++)
                            sum += abs(now[by * B + y][bx * B + x] - past[by * B + y + dy + R][bx * B + x + dx + R]);
                    if (sum < sad[by][bx]) {
                        sad[by][bx] = sum;
                        move[by][bx][0] = dy;
                        move[by][bx][1] = dx;
                    }
                }
        }
#pragma endscop
}
