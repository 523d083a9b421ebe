/* Users by the month of their first activity, and how many of a cohort are active later. */

#define MONTHS 36

void kernel_cohort_retention(int users, unsigned char active[users][MONTHS], int first[users],
                             int size[MONTHS], int kept[MONTHS][MONTHS], float rate[MONTHS][MONTHS])
{
    int u, m, c, lag;
#pragma scop
    for (c = 0; c < MONTHS; c++) {
        size[c] = 0;
        for (lag = 0; lag < MONTHS; lag++) {
            kept[c][lag] = 0;
            rate[c][lag] = 0.0f;
        }
    }
    for (u = 0; u < users; u++) {
        first[u] = MONTHS;
        for (m = MONTHS - 1; m >= 0; m--)
            if (active[u][m])
                first[u] = m;
        for (c = 0; c < MONTHS; c++)
            if (first[u] == c) {
                size[c]++;
                for (m = c; m < MONTHS; m++)
                    kept[c][m - c] += active[u][m];
            }
    }
    for (c = 0; c < MONTHS; c++)
        for (lag = 0; lag < MONTHS - c; lag++)
            if (size[c] > 0)
                rate[c][lag] = (float)kept[c][lag] / size[c];
#pragma endscop
}
