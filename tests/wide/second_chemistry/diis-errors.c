/* Pulay's extrapolation: the error FDS - SDF of the newest Fock matrix, kept in a ring of errors,
   and the matrix of their inner products, bordered by -1. */

#define KEEP 8

void kernel_diis_errors(int n, double F[n][n], double D[n][n], double S[n][n], double t[n][n],
                        double err[KEEP][n][n], double B[KEEP + 1][KEEP + 1])
{
#pragma scop
    for (int k = 0; k < KEEP - 1; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                err[k][i][j] = err[k + 1][i][j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0.0;
            for (int k = 0; k < n; k++)
                sum += F[i][k] * D[k][j];
            t[i][j] = sum;
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0.0;
            for (int k = 0; k < n; k++)
                sum += t[i][k] * S[k][j] - S[i][k] * t[j][k];
            err[KEEP - 1][i][j] = sum;
        }
    for (int a = 0; a < KEEP; a++)
        for (int b = 0; b <= a; b++) {
            double dot = 0.0;
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++)
                    dot += err[a][i][j] * err[b][i][j];
            B[a][b] = dot;
            B[b][a] = dot;
        }
    for (int a = 0; a < KEEP; a++) {
        B[a][KEEP] = -1.0;
        B[KEEP][a] = -1.0;
    }
    B[KEEP][KEEP] = 0.0;
#pragma endscop
}
