/* Displacements of particles over all lags of a trajectory: second and fourth moments, how far from
   normal they are, and a line through the second half. */

void kernel_displacement_lags(int frames, int n, int lags, float traj[frames][3][n], double msd[lags],
                              double fourth[lags], double alpha2[lags], double slope[2])
{
#pragma scop
    for (int lag = 0; lag < lags; lag++) {
        double second = 0.0, four = 0.0;
        long pairs = 0;
        for (int t = 0; t < frames - lag; t++) {
            for (int p = 0; p < n; p++) {
                double dx = traj[t + lag][0][p] - traj[t][0][p];
                double dy = traj[t + lag][1][p] - traj[t][1][p];
                double dz = traj[t + lag][2][p] - traj[t][2][p];
                double r2 = dx * dx + dy * dy + dz * dz;
                second += r2;
                four += r2 * r2;
                pairs++;
            }
        }
        msd[lag] = pairs > 0 ? second / pairs : 0.0;
        fourth[lag] = pairs > 0 ? four / pairs : 0.0;
        alpha2[lag] = msd[lag] > 0.0 ? 3.0 * fourth[lag] / (5.0 * msd[lag] * msd[lag]) - 1.0 : 0.0;
    }

    double sx = 0.0, sy = 0.0, sxx = 0.0, sxy = 0.0;
    int used = 0;
    for (int lag = lags / 2; lag < lags; lag++) {
        sx += lag;
        sy += msd[lag];
        sxx += (double)lag * lag;
        sxy += lag * msd[lag];
        used++;
    }
    double det = used * sxx - sx * sx;
    slope[0] = det > 0.0 ? (used * sxy - sx * sy) / det : 0.0;
    slope[1] = used > 0 ? (sy - slope[0] * sx) / used : 0.0;
#pragma endscop
}
