/* RNA folding by spans: the best sum of pair weights where a hairpin holds at least three bases. */
#include <math.h>

#define HAIRPIN 3

void kernel_rna_stacking(int n, float weight[n][n], float fold[n][n])
{
    int i, k, span;

#pragma scop
    for (span = 0; span <= HAIRPIN; span++)
        for (i = 0; i < n - span; i++)
            fold[i][i + span] = 0.0f;
    for (span = HAIRPIN + 1; span < n; span++)
        for (i = 0; i < n - span; i++) {
            float best = fmaxf(fold[i + 1][i + span], fold[i][i + span - 1]);
            best = fmaxf(best, fold[i + 1][i + span - 1] + weight[i][i + span]);
            for (k = i + 1; k < i + span - 1; k++)
                best = fmaxf(best, fold[i][k] + fold[k + 1][i + span]);
            fold[i][i + span] = best;
        }
#pragma endscop
}
