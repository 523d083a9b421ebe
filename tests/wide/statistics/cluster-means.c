/* One round of k-means: every point to its nearest centre, written as a row of zeros and a one,
   then new centres as quotients of sums. */
void kernel_cluster_means(int n, int k, int d, float x[n][d], float centre[k][d], float member[n][k],
                          float sum[k][d], float size[k])
{
    int i, c, f;

#pragma scop
    for (i = 0; i < n; i++) {
        float least = 1e30f;
        int who = 0;
        for (c = 0; c < k; c++) {
            float dist = 0.0f;
            for (f = 0; f < d; f++)
                dist += (x[i][f] - centre[c][f]) * (x[i][f] - centre[c][f]);
            if (dist < least) {
                least = dist;
                who = c;
            }
        }
        for (c = 0; c < k; c++)
            member[i][c] = c == who ? 1.0f : 0.0f;
    }
    for (c = 0; c < k; c++) {
        size[c] = 0.0f;
        for (f = 0; f < d; f++)
            sum[c][f] = 0.0f;
    }
    for (i = 0; i < n; i++)
        for (c = 0; c < k; c++) {
            size[c] += member[i][c];
            for (f = 0; f < d; f++)
                sum[c][f] += member[i][c] * x[i][f];
        }
    for (c = 0; c < k; c++)
        for (f = 0; f < d; f++)
            centre[c][f] = size[c] > 0.0f ? sum[c][f] / size[c] : centre[c][f];
#pragma endscop
}
