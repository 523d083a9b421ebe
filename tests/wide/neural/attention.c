/* Attention of several heads as the formula says: scores, softmax of each row, weighted values. */
#include <math.h>

void kernel_attention(int h, int n, int d, float scale, float Q[restrict h][n][d],
                      float K[restrict h][n][d], float V[restrict h][n][d], float S[restrict h][n][n],
                      float O[restrict h][n][d])
{
#pragma scop
    for (int b = 0; b < h; b++)
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                S[b][i][j] = 0.0f;
                for (int k = 0; k < d; k++)
                    S[b][i][j] += Q[b][i][k] * K[b][j][k];
                S[b][i][j] *= scale;
            }
            float top = S[b][i][0];
            for (int j = 1; j < n; j++)
                top = fmaxf(top, S[b][i][j]);
            float sum = 0.0f;
            for (int j = 0; j < n; j++) {
                S[b][i][j] = expf(S[b][i][j] - top);
                sum += S[b][i][j];
            }
            for (int k = 0; k < d; k++) {
                O[b][i][k] = 0.0f;
                for (int j = 0; j < n; j++)
                    O[b][i][k] += S[b][i][j] * V[b][j][k];
                O[b][i][k] /= sum;
            }
        }
#pragma endscop
}
