/* Atomic integrals to molecular ones, one index after another: four products over n^4 numbers. */
#ifndef EXTENT_n
#define EXTENT_n 40
#endif
#define N EXTENT_n

void kernel_four_index_seq(int n, double eri[N][N][N][N], double C[N][N], double t1[N][N][N][N],
                           double t2[N][N][N][N])
{
    int p, q, r, s, a;
#pragma scop
    for (p = 0; p < n; p++)
        for (q = 0; q < n; q++)
            for (r = 0; r < n; r++)
                for (s = 0; s < n; s++) {
                    t1[p][q][r][s] = 0.0;
                    for (a = 0; a < n; a++)
                        t1[p][q][r][s] += C[a][p] * eri[a][q][r][s];
                }
    for (p = 0; p < n; p++)
        for (q = 0; q < n; q++)
            for (r = 0; r < n; r++)
                for (s = 0; s < n; s++) {
                    t2[p][q][r][s] = 0.0;
                    for (a = 0; a < n; a++)
                        t2[p][q][r][s] += C[a][q] * t1[p][a][r][s];
                }
    for (p = 0; p < n; p++)
        for (q = 0; q < n; q++)
            for (r = 0; r < n; r++)
                for (s = 0; s < n; s++) {
                    t1[p][q][r][s] = 0.0;
                    for (a = 0; a < n; a++)
                        t1[p][q][r][s] += C[a][r] * t2[p][q][a][s];
                }
    for (p = 0; p < n; p++)
        for (q = 0; q < n; q++)
            for (r = 0; r < n; r++)
                for (s = 0; s < n; s++) {
                    t2[p][q][r][s] = 0.0;
                    for (a = 0; a < n; a++)
                        t2[p][q][r][s] += C[a][s] * t1[p][q][r][a];
                }
#pragma endscop
}
