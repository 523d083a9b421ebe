/* Four shades of grey with errors handed on to the right and below (Floyd and Steinberg). */
#ifndef EXTENT_h
#define EXTENT_h 1400
#define EXTENT_w 1500
#endif
#define H EXTENT_h
#define W EXTENT_w
#define ERR(y, x) err[(y) * (W + 2) + (x) + 1]

void kernel_error_diffusion(const unsigned char in[H * W], unsigned char out[H * W],
                            int err[(H + 1) * (W + 2)], int shades[4])
{
#pragma scop
    for (int i = 0; i < (H + 1) * (W + 2); i++)
        err[i] = 0;
    for (int s = 0; s < 4; s++)
        shades[s] = 0;
    for (int y = 0; y < H; y++) {
        for (int x = 0; x < W; x++) {
            int want = in[y * W + x] + ERR(y, x) / 16;
            int level = want < 43 ? 0 : want < 128 ? 85 : want < 213 ? 170 : 255;
            int e = want - level;
            out[y * W + x] = (unsigned char)level;
            ERR(y, x + 1) += 7 * e;
            ERR(y + 1, x - 1) += 3 * e;
            ERR(y + 1, x) += 5 * e;
            ERR(y + 1, x + 1) += e;
        }
    }
    for (int i = 0; i < H * W; i++)
        for (int s = 0; s < 4; s++)
            if (out[i] == 85 * s)
                shades[s]++;
#pragma endscop
}
