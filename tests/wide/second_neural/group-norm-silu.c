/* Group normalisation of feature maps followed by x sigmoid(x), in place. */
#include <math.h>

#define GROUP 8
#define EPS 1e-5f

void kernel_group_norm_silu(int batch, int groups, int hw, float x[batch][groups * GROUP][hw],
                            float gamma[groups * GROUP], float beta[groups * GROUP])
{
#pragma scop
    for (int b = 0; b < batch; b++)
        for (int g = 0; g < groups; g++) {
            float mean = 0.0f;
            float var = 0.0f;
            for (int c = 0; c < GROUP; c++)
                for (int p = 0; p < hw; p++)
                    mean += x[b][g * GROUP + c][p];
            mean /= GROUP * hw;
            for (int c = 0; c < GROUP; c++)
                for (int p = 0; p < hw; p++) {
                    float d = x[b][g * GROUP + c][p] - mean;
                    var += d * d;
                }
            float inv = 1.0f / sqrtf(var / (GROUP * hw) + EPS);
            for (int c = 0; c < GROUP; c++)
                for (int p = 0; p < hw; p++) {
                    float y = (x[b][g * GROUP + c][p] - mean) * inv * gamma[g * GROUP + c]
                            + beta[g * GROUP + c];
                    x[b][g * GROUP + c][p] = y / (1.0f + expf(-y));
                }
        }
#pragma endscop
}
