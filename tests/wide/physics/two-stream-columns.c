/* Radiation up and down through layers, column by column: doubling from the ground, then fluxes. */
#include <math.h>

void kernel_two_stream_columns(int columns, int layers, double albedo, double sun[columns],
                               double tau[columns][layers], double R[columns][layers],
                               double down[columns][layers], double up[columns][layers])
{
    int c, k;

#pragma scop
    for (c = 0; c < columns; ++c) {
        double below = albedo;
        /* reflection of all that lies below layer k, from the ground upwards */
        for (k = layers - 1; k >= 0; --k) {
            double g = tau[c][k] / (2.0 + tau[c][k]);
            double trans = 1.0 - g;
            R[c][k] = g + trans * trans * below / (1.0 - g * below);
            below = R[c][k];
        }
        down[c][0] = sun[c];
        for (k = 1; k < layers; ++k) {
            double g = tau[c][k - 1] / (2.0 + tau[c][k - 1]);
            down[c][k] = down[c][k - 1] * (1.0 - g) / (1.0 - g * R[c][k]);
        }
        for (k = 0; k < layers; ++k)
            up[c][k] = R[c][k] * down[c][k] + 0.01 * exp(-tau[c][k]);
    }
#pragma endscop
}
