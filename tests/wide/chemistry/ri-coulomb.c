/* The Coulomb matrix by density fitting, in single precision: fitted charges, then potentials. */
#ifndef EXTENT_naux
#define EXTENT_naux 600
#define EXTENT_nbf 180
#endif
#define AUX EXTENT_naux
#define BF EXTENT_nbf

void kernel_ri_coulomb(int naux, int nbf, float Q[AUX][BF][BF], float D[BF][BF], float charge[AUX],
                       float J[BF][BF])
{
    int P, m, n;
#pragma scop
    for (P = 0; P < naux; P++) {
        charge[P] = 0.0f;
        for (m = 0; m < nbf; m++)
            for (n = 0; n < nbf; n++)
                charge[P] += Q[P][m][n] * D[m][n];
    }
    for (m = 0; m < nbf; m++)
        for (n = 0; n < nbf; n++) {
            J[m][n] = 0.0f;
            for (P = 0; P < naux; P++)
                J[m][n] += charge[P] * Q[P][m][n];
        }
#pragma endscop
}
