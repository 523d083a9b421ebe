/* A convolution of stride two over an image with a border of one, kernels three by three. */
void kernel_conv_strided(int oc, int ic, int oh, int ow, float in[restrict ic][2 * oh + 1][2 * ow + 1],
                         float w[restrict oc][ic][3][3], float bias[restrict oc],
                         float out[restrict oc][oh][ow])
{
    int o, y, x, c, ky, kx;
#pragma scop
    for (o = 0; o < oc; o++)
        for (y = 0; y < oh; y++)
            for (x = 0; x < ow; x++) {
                out[o][y][x] = bias[o];
                for (c = 0; c < ic; c++)
                    for (ky = 0; ky < 3; ky++)
                        for (kx = 0; kx < 3; kx++)
                            out[o][y][x] += in[c][2 * y + ky][2 * x + kx] * w[o][c][ky][kx];
            }
#pragma endscop
}
