/* Two-dimensional convolution with all its borders, spread from every input. */
#ifndef EXTENT_h
#define EXTENT_h 700
#define EXTENT_w 800
#define EXTENT_kh 9
#define EXTENT_kw 11
#define EXTENT_oh 708
#define EXTENT_ow 810
#endif

#define H EXTENT_h
#define W EXTENT_w
#define KH EXTENT_kh
#define KW EXTENT_kw

void kernel_full_convolution(int h, int w, int kh, int kw, int oh, int ow, float in[H][W],
                             float ker[KH][KW], float out[EXTENT_oh][EXTENT_ow])
{
    int i, j, a, b;

#pragma scop
    for (i = 0; i < H + KH - 1; i++)
        for (j = 0; j < W + KW - 1; j++)
            out[i][j] = 0.0f;
    for (i = 0; i < H; i++)
        for (j = 0; j < W; j++)
            for (a = 0; a < KH; a++)
                for (b = 0; b < KW; b++)
                    out[i + a][j + b] += in[i][j] * ker[a][b];
#pragma endscop
}
