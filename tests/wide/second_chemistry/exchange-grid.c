/* Local density approximation of two spins on a grid: Dirac exchange, Wigner correlation,
   the energy, and the potential's matrix in the basis. */
#include <math.h>

#define CX 0.9305257363491001
#define WIGNER_A 0.04918
#define WIGNER_D 0.349

void kernel_exchange_grid(int points, int nbf, double phi[points][nbf], double w[points],
                          double up[points], double down[points], double vup[points],
                          double vmat[nbf][nbf], double energy[2])
{
#pragma scop
    energy[0] = 0.0;
    energy[1] = 0.0;
    for (int g = 0; g < points; g++) {
        double rho = up[g] + down[g];
        if (rho > 1e-10) {
            double ra = cbrt(up[g]);
            double rb = cbrt(down[g]);
            double r3 = 1.0 / cbrt(rho);
            double den = 1.0 / (1.0 + WIGNER_D * r3);
            double ratio = 4.0 * up[g] * down[g] / (rho * rho);
            energy[0] -= w[g] * CX * (up[g] * ra + down[g] * rb);
            energy[1] -= w[g] * WIGNER_A * rho * ratio * den;
            vup[g] = -4.0 / 3.0 * CX * ra
                   - WIGNER_A * den * (4.0 * down[g] * down[g] / (rho * rho)
                                       + ratio * WIGNER_D * r3 * den / 3.0);
        } else {
            vup[g] = 0.0;
        }
    }
    for (int a = 0; a < nbf; a++)
        for (int b = 0; b <= a; b++) {
            vmat[a][b] = 0.0;
            for (int g = 0; g < points; g++)
                vmat[a][b] += w[g] * vup[g] * phi[g][a] * phi[g][b];
            vmat[b][a] = vmat[a][b];
        }
#pragma endscop
}
