/* Silhouettes: how much nearer points are to their own of six clusters than to the next one. */
#include <math.h>

#define K 6

void kernel_cluster_silhouette(int n, int dims, float x[n][dims], unsigned char label[n], int size[K],
                               float within[n], float other[n], float score[n], float mean[K])
{
#pragma scop
    for (int c = 0; c < K; c++) {
        size[c] = 0;
        mean[c] = 0.0f;
        for (int i = 0; i < n; i++)
            size[c] += label[i] == c;
    }
    for (int i = 0; i < n; i++) {
        float sum[K];
        for (int c = 0; c < K; c++)
            sum[c] = 0.0f;
        for (int j = 0; j < n; j++) {
            float d2 = 0.0f;
            for (int d = 0; d < dims; d++)
                d2 += (x[i][d] - x[j][d]) * (x[i][d] - x[j][d]);
            float dist = sqrtf(d2);
            for (int c = 0; c < K; c++)
                if (label[j] == c)
                    sum[c] += dist;
        }
        float own = 0.0f, next = 1e30f;
        for (int c = 0; c < K; c++) {
            if (label[i] == c) {
                own = size[c] > 1 ? sum[c] / (size[c] - 1) : 0.0f;
            } else if (size[c] > 0) {
                float m = sum[c] / size[c];
                if (m < next)
                    next = m;
            }
        }
        within[i] = own;
        other[i] = next;
        score[i] = (next - own) / (next > own ? next : own);
        for (int c = 0; c < K; c++)
            if (label[i] == c)
                mean[c] += score[i];
    }
    for (int c = 0; c < K; c++)
        if (size[c] > 0)
            mean[c] /= size[c];
#pragma endscop
}
