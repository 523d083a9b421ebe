/* Population analysis: PS, Mulliken charges of atoms with nine functions each, Mayer bond orders. */
#ifndef EXTENT_atoms
#define EXTENT_atoms 40
#endif
#define ATOMS EXTENT_atoms
#define EACH 9
#define NBF (ATOMS * EACH)

void kernel_bond_orders(double P[NBF][NBF], double S[NBF][NBF], double Z[ATOMS], double PS[NBF][NBF],
                        double charge[ATOMS], double order[ATOMS][ATOMS], double valence[ATOMS])
{
    int a, b, m, n, k;
#pragma scop
    for (m = 0; m < NBF; m++)
        for (n = 0; n < NBF; n++)
            PS[m][n] = 0.0;
    for (m = 0; m < NBF; m++)
        for (n = 0; n < NBF; n++)
            for (k = 0; k < NBF; k++)
                PS[m][n] += P[m][k] * S[n][k];
    for (a = 0; a < ATOMS; a++) {
        charge[a] = Z[a];
        for (m = 0; m < EACH; m++)
            charge[a] -= PS[a * EACH + m][a * EACH + m];
    }
    for (a = 0; a < ATOMS; a++)
        for (b = 0; b < ATOMS; b++) {
            order[a][b] = 0.0;
            if (a != b)
                for (m = a * EACH; m < (a + 1) * EACH; m++)
                    for (n = b * EACH; n < (b + 1) * EACH; n++)
                        order[a][b] += PS[m][n] * PS[n][m];
        }
    for (a = 0; a < ATOMS; a++) {
        valence[a] = 0.0;
        for (b = 0; b < ATOMS; b++)
            valence[a] += order[a][b];
    }
#pragma endscop
}
