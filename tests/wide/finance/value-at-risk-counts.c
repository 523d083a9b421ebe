/* Losses of a book in every scenario, how many exceed each level, and the mean of those. */
void kernel_value_at_risk_counts(int scenarios, int n, int levels, float position[n],
                                 float move[scenarios][n], float level[levels],
                                 float loss[scenarios], int count[levels], float tail[levels])
{
    int s, i, q;

#pragma scop
    for (s = 0; s < scenarios; ++s) {
        loss[s] = 0.f;
        for (i = 0; i < n; ++i)
            loss[s] -= position[i] * move[s][i];
    }
    for (q = 0; q < levels; ++q) {
        count[q] = 0;
        tail[q] = 0.f;
        for (s = 0; s < scenarios; ++s)
            if (loss[s] > level[q]) {
                count[q]++;
                tail[q] += loss[s];
            }
        tail[q] /= count[q] + 1;
    }
#pragma endscop
}
