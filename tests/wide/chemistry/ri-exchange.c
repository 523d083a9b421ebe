/* Exchange by density fitting: half-transformed three-index integrals, then their products. */
void kernel_ri_exchange(int naux, int nbf, int nocc, double B[static restrict naux][nbf][nbf],
                        double C[static restrict nbf][nocc],
                        double half[static restrict naux][nocc][nbf],
                        double K[static restrict nbf][nbf])
{
    int P, i, m, n;
#pragma scop
    for (P = 0; P < naux; ++P)
        for (i = 0; i < nocc; ++i)
            for (m = 0; m < nbf; ++m) {
                half[P][i][m] = 0.;
                for (n = 0; n < nbf; ++n)
                    half[P][i][m] += C[n][i] * B[P][m][n];
            }
    for (m = 0; m < nbf; ++m)
        for (n = 0; n <= m; ++n) {
            K[m][n] = 0.;
            for (P = 0; P < naux; ++P)
                for (i = 0; i < nocc; ++i)
                    K[m][n] += half[P][i][m] * half[P][i][n];
        }
    for (m = 0; m < nbf; ++m)
        for (n = m + 1; n < nbf; ++n)
            K[m][n] = K[n][m];
#pragma endscop
}
