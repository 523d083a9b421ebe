/* One index of integrals to a few occupied orbitals; (m, l) and (l, m) are the same. */
void kernel_half_transform(int nbf, int nocc, const double ao[restrict nbf][nbf][nbf],
                           const double occ[restrict nocc][nbf], double out[restrict nbf][nbf][nocc])
{
#pragma scop
    for (int m = 0; m < nbf; m++)
        for (int l = 0; l <= m; l++)
            for (int i = 0; i < nocc; i++) {
                double sum = 0.0;
                for (int v = 0; v < nbf; v++)
                    sum += occ[i][v] * ao[m][l][v];
                out[m][l][i] = sum;
                out[l][m][i] = sum;
            }
#pragma endscop
}
