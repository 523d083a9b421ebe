/* Sums of squared integrals over energy differences, for each pair of occupied orbitals. */
void mp2(int o, int v, double ia[o][v][o][v], double eo[o], double ev[v], double pair[o][o])
{
#pragma scop
    for (int i = 0; i < o; i++)
        for (int j = 0; j <= i; j++) {
            pair[i][j] = 0.0;
            for (int a = 0; a < v; a++)
                for (int b = 0; b < v; b++)
                    pair[i][j] += ia[i][a][j][b] * (2.0 * ia[i][a][j][b] - ia[i][b][j][a]) /
                                  (eo[i] + eo[j] - ev[a] - ev[b] - 40.0);
        }
#pragma endscop
}
