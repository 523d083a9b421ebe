/* A join without an index: every key on the left meets every key on the right. */
void kernel_join_by_compare(int n, int m, int left[n], int right[m], int value[m], int matches[n],
                            int total[n])
{
    int i, j;

#pragma scop
    for (i = 0; i < n; i++) {
        matches[i] = 0;
        total[i] = 0;
        for (j = 0; j < m; j++) {
            if (left[i] == right[j]) {
                matches[i] += 1;
                total[i] += value[j];
            }
        }
    }
#pragma endscop
}
