/* A two-way table of counts with its margins, and how far each cell lies from independence. */
void kernel_contingency_two_way(int n, int p, int q, const int a[n], const int b[n],
                                int count[p][q], int row[p], int column[q], double excess[p][q])
{
    int i, u, v;

#pragma scop
    for (u = 0; u < p; u++)
        for (v = 0; v < q; v++) {
            int c = 0;
            for (i = 0; i < n; i++)
                c += (a[i] == u && b[i] == v) ? 1 : 0;
            count[u][v] = c;
        }
    for (u = 0; u < p; u++) {
        row[u] = 0;
        for (v = 0; v < q; v++)
            row[u] += count[u][v];
    }
    for (v = 0; v < q; v++) {
        column[v] = 0;
        for (u = 0; u < p; u++)
            column[v] += count[u][v];
    }
    for (u = 0; u < p; u++)
        for (v = 0; v < q; v++)
            excess[u][v] = count[u][v] - (double)row[u] * column[v] / n;
#pragma endscop
}
