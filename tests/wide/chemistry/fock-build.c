/* Coulomb and exchange parts of a Fock matrix from the four-index integrals and a density. */
#ifndef EXTENT_n
#define EXTENT_n 70
#endif
#ifndef NBF
#define NBF EXTENT_n
#endif

void kernel_fock_build(double F[NBF][NBF], double H[NBF][NBF], double D[NBF][NBF],
                       double eri[NBF][NBF][NBF][NBF])
{
#pragma scop
    for (int m = 0; m < NBF; m++)
        for (int n = 0; n < NBF; n++) {
            F[m][n] = H[m][n];
            for (int l = 0; l < NBF; l++)
                for (int s = 0; s < NBF; s++)
                    F[m][n] += D[l][s] * (eri[m][n][l][s] - 0.5 * eri[m][l][n][s]);
        }
#pragma endscop
}
