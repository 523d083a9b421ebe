/* Transposed convolution of stride two with kernels of four by four, bias and leaky ReLU. */
#ifndef EXTENT_ci
#define EXTENT_ci 32
#endif
#ifndef EXTENT_co
#define EXTENT_co 16
#endif
#ifndef EXTENT_s
#define EXTENT_s 32
#endif
#define CI EXTENT_ci
#define CO EXTENT_co
#define S EXTENT_s
#define K 4

void kernel_deconv_stride_two(int ci, int co, int s, float in[CI][S][S], float w[CI][CO][K][K],
                              float bias[CO], float out[CO][2 * S + 2][2 * S + 2])
{
    int i, o, y, x, ky, kx;
#pragma scop
    for (o = 0; o < co; o++)
        for (y = 0; y < 2 * s + 2; y++)
            for (x = 0; x < 2 * s + 2; x++)
                out[o][y][x] = bias[o];
    for (i = 0; i < ci; i++)
        for (o = 0; o < co; o++)
            for (y = 0; y < s; y++)
                for (x = 0; x < s; x++)
                    for (ky = 0; ky < K; ky++)
                        for (kx = 0; kx < K; kx++)
                            out[o][2 * y + ky][2 * x + kx] += in[i][y][x] * w[i][o][ky][kx];
    for (o = 0; o < co; o++)
        for (y = 0; y < 2 * s + 2; y++)
            for (x = 0; x < 2 * s + 2; x++)
                out[o][y][x] = out[o][y][x] > 0.0f ? out[o][y][x] : 0.2f * out[o][y][x];
#pragma endscop
}
