/* Luma of interleaved RGB, counted in sixteen bins by comparison, and a picture equalised by the
   running sum of the counts. */
void kernel_equalise_sixteen(int h, int w, int pixels, unsigned char rgb[h][w][3],
                             unsigned char luma[h][w], int count[16], int running[16],
                             unsigned char out[h][w])
{
    int y, x, b;

#pragma scop
    for (y = 0; y < h; y++)
        for (x = 0; x < w; x++)
            luma[y][x] = (77 * rgb[y][x][0] + 150 * rgb[y][x][1] + 29 * rgb[y][x][2]) >> 8;

    for (b = 0; b < 16; b++)
        count[b] = 0;
    for (y = 0; y < h; y++)
        for (x = 0; x < w; x++)
            for (b = 0; b < 16; b++)
                count[b] += (luma[y][x] >> 4) == b ? 1 : 0;

    running[0] = count[0];
    for (b = 1; b < 16; b++)
        running[b] = running[b - 1] + count[b];

    for (y = 0; y < h; y++)
        for (x = 0; x < w; x++) {
            int mapped = 0;
            for (b = 0; b < 16; b++)
                mapped += (luma[y][x] >> 4) == b ? running[b] : 0;
            out[y][x] = mapped * 16 / pixels * 15;
        }
#pragma endscop
}
