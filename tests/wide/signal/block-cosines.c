/* The cosine transform of 8x8 blocks of a picture, rows then columns, and a quantisation that
   rounds towards zero. */
void kernel_block_cosines(int bh, int bw, int h, int w, float image[h][w], float basis[8][8],
                          float step[8][8], int coef[h][w])
{
#pragma scop
    for (int by = 0; by < bh; by++) {
        for (int bx = 0; bx < bw; bx++) {
            float tmp[8][8];
            for (int y = 0; y < 8; y++) {
                for (int u = 0; u < 8; u++) {
                    float s = 0.0f;
                    for (int x = 0; x < 8; x++)
                        s += image[8 * by + y][8 * bx + x] * basis[u][x];
                    tmp[y][u] = s;
                }
            }
            for (int v = 0; v < 8; v++) {
                for (int u = 0; u < 8; u++) {
                    float s = 0.0f;
                    for (int y = 0; y < 8; y++)
                        s += tmp[y][u] * basis[v][y];
                    coef[8 * by + v][8 * bx + u] = (int)(s / step[v][u]);
                }
            }
        }
    }
#pragma endscop
}
