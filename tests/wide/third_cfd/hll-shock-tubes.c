/* An ensemble of shock tubes: Euler's equations by fluxes of Harten, Lax and van Leer. */
#include <math.h>

#define GAMMA 1.4

void kernel_hll_shock_tubes(int tubes, int cells, int steps, double lambda, double rho[tubes][cells],
                            double mom[tubes][cells], double ene[tubes][cells], double f1[cells + 1],
                            double f2[cells + 1], double f3[cells + 1], double fastest[2])
{
    double smax = 0.0, smin = 0.0;

#pragma scop
    for (int b = 0; b < tubes; b++) {
        for (int t = 0; t < steps; t++) {
            for (int i = 1; i < cells; i++) {
                double ul = mom[b][i - 1] / rho[b][i - 1];
                double ur = mom[b][i] / rho[b][i];
                double pl = (GAMMA - 1.0) * (ene[b][i - 1] - 0.5 * mom[b][i - 1] * ul);
                double pr = (GAMMA - 1.0) * (ene[b][i] - 0.5 * mom[b][i] * ur);
                double cl = sqrt(GAMMA * fabs(pl) / rho[b][i - 1]);
                double cr = sqrt(GAMMA * fabs(pr) / rho[b][i]);
                double sl = ul - cl < ur - cr ? ul - cl : ur - cr;
                double sr = ul + cl > ur + cr ? ul + cl : ur + cr;
                if (sr > smax)
                    smax = sr;
                if (sl < smin)
                    smin = sl;
                if (sl > 0.0)
                    sl = 0.0;
                if (sr < 0.0)
                    sr = 0.0;
                double w = 1.0 / (sr - sl);
                f1[i] = w * (sr * mom[b][i - 1] - sl * mom[b][i] + sl * sr * (rho[b][i] - rho[b][i - 1]));
                f2[i] = w * (sr * (mom[b][i - 1] * ul + pl) - sl * (mom[b][i] * ur + pr)
                             + sl * sr * (mom[b][i] - mom[b][i - 1]));
                f3[i] = w * (sr * (ene[b][i - 1] + pl) * ul - sl * (ene[b][i] + pr) * ur
                             + sl * sr * (ene[b][i] - ene[b][i - 1]));
            }
            for (int i = 1; i < cells - 1; i++) {
                rho[b][i] -= lambda * (f1[i + 1] - f1[i]);
                mom[b][i] -= lambda * (f2[i + 1] - f2[i]);
                ene[b][i] -= lambda * (f3[i + 1] - f3[i]);
            }
        }
    }
    fastest[0] = smin;
    fastest[1] = smax;
#pragma endscop
}
