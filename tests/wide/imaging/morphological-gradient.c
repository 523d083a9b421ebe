/* Dilation minus erosion over a 5x5 square. */
#ifndef EXTENT_rows
#define EXTENT_rows 6000
#define EXTENT_cols 8000
#endif

#define RADIUS 2

typedef unsigned char pixel;

void kernel_morphological_gradient(int rows, int cols, pixel src[EXTENT_rows][EXTENT_cols],
                                   pixel dst[EXTENT_rows][EXTENT_cols])
{
#pragma scop
    for (int r = RADIUS; r < EXTENT_rows - RADIUS; r++) {
        for (int c = RADIUS; c < EXTENT_cols - RADIUS; c++) {
            pixel lo = 255, hi = 0;
            for (int dr = -RADIUS; dr <= RADIUS; dr++) {
                for (int dc = -RADIUS; dc <= RADIUS; dc++) {
                    pixel v = src[r + dr][c + dc];
                    if (v < lo)
                        lo = v;
                    if (v > hi)
                        hi = v;
                }
            }
            dst[r][c] = hi - lo;
        }
    }
#pragma endscop
}
