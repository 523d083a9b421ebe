/* Spectral elements of Q x Q x Q points: derivatives along the three axes, weighted and summed. */
#define Q 6

void kernel_spectral_element(int elements, double D[Q][Q], double u[elements][Q][Q][Q],
                             double g[elements][3], double w[elements][Q][Q][Q])
{
    int e, i, j, k, l;

#pragma scop
    for (e = 0; e < elements; e++)
        for (i = 0; i < Q; i++)
            for (j = 0; j < Q; j++)
                for (k = 0; k < Q; k++) {
                    double ur = 0, us = 0, ut = 0;
                    for (l = 0; l < Q; l++) {
                        ur += D[i][l] * u[e][l][j][k];
                        us += D[j][l] * u[e][i][l][k];
                        ut += D[k][l] * u[e][i][j][l];
                    }
                    w[e][i][j][k] = g[e][0] * ur + g[e][1] * us + g[e][2] * ut;
                }
#pragma endscop
}
