/* Staggered fermions on a lattice of four dimensions: links of SU(3) carry colour to the
   neighbours, for several sources. */
#ifndef EXTENT_n
#define EXTENT_n 10
#endif
#define N EXTENT_n
#define SOURCES 6
#define RE 0
#define IM 1

void kernel_staggered_hopping(double mass, double U[4][N][N][N][N][3][3][2], double psi[SOURCES][N][N][N][N][3][2],
                              double out[SOURCES][N][N][N][N][3][2])
{
#pragma scop
    for (int s = 0; s < SOURCES; s++)
        for (int t = 1; t < N - 1; t++)
            for (int z = 1; z < N - 1; z++)
                for (int y = 1; y < N - 1; y++)
                    for (int x = 1; x < N - 1; x++)
                        for (int a = 0; a < 3; a++) {
                            double re = mass * psi[s][t][z][y][x][a][RE];
                            double im = mass * psi[s][t][z][y][x][a][IM];
                            for (int b = 0; b < 3; b++) {
                                /* forward: U psi(x + mu) */
                                re += 0.5 * (U[0][t][z][y][x][a][b][RE] * psi[s][t][z][y][x + 1][b][RE]
                                             - U[0][t][z][y][x][a][b][IM] * psi[s][t][z][y][x + 1][b][IM]);
                                im += 0.5 * (U[0][t][z][y][x][a][b][RE] * psi[s][t][z][y][x + 1][b][IM]
                                             + U[0][t][z][y][x][a][b][IM] * psi[s][t][z][y][x + 1][b][RE]);
                                re += 0.5 * (U[1][t][z][y][x][a][b][RE] * psi[s][t][z][y + 1][x][b][RE]
                                             - U[1][t][z][y][x][a][b][IM] * psi[s][t][z][y + 1][x][b][IM]);
                                im += 0.5 * (U[1][t][z][y][x][a][b][RE] * psi[s][t][z][y + 1][x][b][IM]
                                             + U[1][t][z][y][x][a][b][IM] * psi[s][t][z][y + 1][x][b][RE]);
                                re += 0.5 * (U[2][t][z][y][x][a][b][RE] * psi[s][t][z + 1][y][x][b][RE]
                                             - U[2][t][z][y][x][a][b][IM] * psi[s][t][z + 1][y][x][b][IM]);
                                im += 0.5 * (U[2][t][z][y][x][a][b][RE] * psi[s][t][z + 1][y][x][b][IM]
                                             + U[2][t][z][y][x][a][b][IM] * psi[s][t][z + 1][y][x][b][RE]);
                                re += 0.5 * (U[3][t][z][y][x][a][b][RE] * psi[s][t + 1][z][y][x][b][RE]
                                             - U[3][t][z][y][x][a][b][IM] * psi[s][t + 1][z][y][x][b][IM]);
                                im += 0.5 * (U[3][t][z][y][x][a][b][RE] * psi[s][t + 1][z][y][x][b][IM]
                                             + U[3][t][z][y][x][a][b][IM] * psi[s][t + 1][z][y][x][b][RE]);
                                /* backward: U^+(x - mu) psi(x - mu) */
                                re -= 0.5 * (U[0][t][z][y][x - 1][b][a][RE] * psi[s][t][z][y][x - 1][b][RE]
                                             + U[0][t][z][y][x - 1][b][a][IM] * psi[s][t][z][y][x - 1][b][IM]);
                                im -= 0.5 * (U[0][t][z][y][x - 1][b][a][RE] * psi[s][t][z][y][x - 1][b][IM]
                                             - U[0][t][z][y][x - 1][b][a][IM] * psi[s][t][z][y][x - 1][b][RE]);
                                re -= 0.5 * (U[1][t][z][y - 1][x][b][a][RE] * psi[s][t][z][y - 1][x][b][RE]
                                             + U[1][t][z][y - 1][x][b][a][IM] * psi[s][t][z][y - 1][x][b][IM]);
                                im -= 0.5 * (U[1][t][z][y - 1][x][b][a][RE] * psi[s][t][z][y - 1][x][b][IM]
                                             - U[1][t][z][y - 1][x][b][a][IM] * psi[s][t][z][y - 1][x][b][RE]);
                                re -= 0.5 * (U[2][t][z - 1][y][x][b][a][RE] * psi[s][t][z - 1][y][x][b][RE]
                                             + U[2][t][z - 1][y][x][b][a][IM] * psi[s][t][z - 1][y][x][b][IM]);
                                im -= 0.5 * (U[2][t][z - 1][y][x][b][a][RE] * psi[s][t][z - 1][y][x][b][IM]
                                             - U[2][t][z - 1][y][x][b][a][IM] * psi[s][t][z - 1][y][x][b][RE]);
                                re -= 0.5 * (U[3][t - 1][z][y][x][b][a][RE] * psi[s][t - 1][z][y][x][b][RE]
                                             + U[3][t - 1][z][y][x][b][a][IM] * psi[s][t - 1][z][y][x][b][IM]);
                                im -= 0.5 * (U[3][t - 1][z][y][x][b][a][RE] * psi[s][t - 1][z][y][x][b][IM]
                                             - U[3][t - 1][z][y][x][b][a][IM] * psi[s][t - 1][z][y][x][b][RE]);
                            }
                            out[s][t][z][y][x][a][RE] = re;
                            out[s][t][z][y][x][a][IM] = im;
                        }
#pragma endscop
}
