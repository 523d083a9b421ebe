/* Kalman's filter of many tracks in the plane: places are measured, velocities inferred. */

#define NS 4

void kernel_kalman_tracks(int tracks, int steps, double dt, double q, double r,
                          double seen[tracks][steps][2], double state[tracks][steps][NS],
                          double last[tracks][NS][NS])
{
    double x[NS], P[NS][NS], T[NS][NS], F[NS][NS], K[NS][2];
    double s00, s01, s11, det, e0, e1;
    int n, t, i, j, k;
#pragma scop
    for (i = 0; i < NS; i++)
        for (j = 0; j < NS; j++)
            F[i][j] = i == j ? 1.0 : (j == i + 2 ? dt : 0.0);
    for (n = 0; n < tracks; n++) {
        for (i = 0; i < NS; i++) {
            x[i] = i < 2 ? seen[n][0][i] : 0.0;
            for (j = 0; j < NS; j++)
                P[i][j] = i == j ? 1.0 : 0.0;
        }
        for (t = 0; t < steps; t++) {
            /* predict */
            x[0] += dt * x[2];
            x[1] += dt * x[3];
            for (i = 0; i < NS; i++)
                for (j = 0; j < NS; j++) {
                    T[i][j] = 0.0;
                    for (k = 0; k < NS; k++)
                        T[i][j] += F[i][k] * P[k][j];
                }
            for (i = 0; i < NS; i++)
                for (j = 0; j < NS; j++) {
                    P[i][j] = i == j ? q : 0.0;
                    for (k = 0; k < NS; k++)
                        P[i][j] += T[i][k] * F[j][k];
                }
            /* correct */
            s00 = P[0][0] + r;
            s01 = P[0][1];
            s11 = P[1][1] + r;
            det = 1.0 / (s00 * s11 - s01 * s01);
            e0 = seen[n][t][0] - x[0];
            e1 = seen[n][t][1] - x[1];
            for (i = 0; i < NS; i++) {
                K[i][0] = (P[i][0] * s11 - P[i][1] * s01) * det;
                K[i][1] = (P[i][1] * s00 - P[i][0] * s01) * det;
            }
            for (i = 0; i < NS; i++) {
                x[i] += K[i][0] * e0 + K[i][1] * e1;
                state[n][t][i] = x[i];
            }
            for (i = 0; i < NS; i++)
                for (j = 0; j < NS; j++)
                    T[i][j] = P[i][j] - K[i][0] * P[0][j] - K[i][1] * P[1][j];
            for (i = 0; i < NS; i++)
                for (j = 0; j < NS; j++)
                    P[i][j] = 0.5 * (T[i][j] + T[j][i]);
        }
        for (i = 0; i < NS; i++)
            for (j = 0; j < NS; j++)
                last[n][i][j] = P[i][j];
    }
#pragma endscop
}
