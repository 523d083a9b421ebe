/* Axilrod and Teller's energy of all triples of atoms, and the share of each first atom. */
#include <math.h>

void kernel_triple_dipole(int n, double nine, double x[n], double y[n], double z[n], double share[n],
                          double total[1])
{
#pragma scop
    total[0] = 0.0;
    for (int i = 0; i < n; i++) {
        double e = 0.0;
        for (int j = i + 1; j < n; j++) {
            double xij = x[i] - x[j];
            double yij = y[i] - y[j];
            double zij = z[i] - z[j];
            double rij2 = xij * xij + yij * yij + zij * zij;
            for (int k = j + 1; k < n; k++) {
                double xik = x[i] - x[k], yik = y[i] - y[k], zik = z[i] - z[k];
                double xjk = x[j] - x[k], yjk = y[j] - y[k], zjk = z[j] - z[k];
                double rik2 = xik * xik + yik * yik + zik * zik;
                double rjk2 = xjk * xjk + yjk * yjk + zjk * zjk;
                double a = xij * xik + yij * yik + zij * zik;
                double b = -(xij * xjk + yij * yjk + zij * zjk);
                double c = xik * xjk + yik * yjk + zik * zjk;
                double p2 = rij2 * rik2 * rjk2;
                double p3 = p2 * sqrt(p2);
                e += nine * (1.0 + 3.0 * a * b * c / p2) / p3;
            }
        }
        share[i] = e;
        total[0] += e;
    }
#pragma endscop
}
