/* The ring term of coupled clusters: r[i][j][a][b] gathers w[k][b][c][j] t[i][k][a][c]. */
void kernel_ring_term(int no, int nv, double w[restrict no][nv][nv][no],
                      double t[restrict no][no][nv][nv], double r[restrict no][no][nv][nv])
{
#pragma scop
    for (int i = 0; i < no; i++)
        for (int j = 0; j < no; j++)
            for (int a = 0; a < nv; a++)
                for (int b = 0; b < nv; b++)
                    for (int k = 0; k < no; k++)
                        for (int c = 0; c < nv; c++)
                            r[i][j][a][b] += w[k][b][c][j] * (2 * t[i][k][a][c] - t[k][i][a][c]);
#pragma endscop
}
