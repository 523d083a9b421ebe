/* Steps of Adam on several tensors, gradients cut to a norm over all of them together. */
#include <math.h>

#define BETA1 0.9f
#define BETA2 0.999f

void kernel_clipped_adam(int steps, int tensors, int n, float lr, float limit, float w[tensors][n],
                         float g[steps][tensors][n], float m[tensors][n], float v[tensors][n],
                         float norm[steps])
{
    float b1, b2;

#pragma scop
    for (int p = 0; p < tensors; p++)
        for (int i = 0; i < n; i++) {
            m[p][i] = 0.0f;
            v[p][i] = 0.0f;
        }
    b1 = 1.0f;
    b2 = 1.0f;
    for (int t = 0; t < steps; t++) {
        double squares = 0.0;
        for (int p = 0; p < tensors; p++)
            for (int i = 0; i < n; i++)
                squares += (double)g[t][p][i] * g[t][p][i];
        norm[t] = (float)sqrt(squares);
        float scale = norm[t] > limit ? limit / norm[t] : 1.0f;
        b1 *= BETA1;
        b2 *= BETA2;
        for (int p = 0; p < tensors; p++)
            for (int i = 0; i < n; i++) {
                float grad = scale * g[t][p][i];
                m[p][i] = BETA1 * m[p][i] + (1.0f - BETA1) * grad;
                v[p][i] = BETA2 * v[p][i] + (1.0f - BETA2) * grad * grad;
                float mhat = m[p][i] / (1.0f - b1);
                float vhat = v[p][i] / (1.0f - b2);
                w[p][i] -= lr * (mhat / (sqrtf(vhat) + 1e-8f) + 0.01f * w[p][i]);
            }
    }
#pragma endscop
}
