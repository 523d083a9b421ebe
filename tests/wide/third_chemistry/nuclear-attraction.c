/* Attraction of electrons in contracted s functions to the nuclei, with Boys' function of order 0. */
#include <math.h>

#define PI 3.14159265358979323846

void kernel_nuclear_attraction(int shells, int prims, int atoms, double centre[shells][3],
                               double alpha[shells][prims], double coef[shells][prims],
                               double nucleus[atoms][3], double charge[atoms], double V[shells][shells])
{
#pragma scop
    for (int a = 0; a < shells; a++) {
        for (int b = 0; b <= a; b++) {
            double sum = 0.0;
            double ab2 = 0.0;
            for (int d = 0; d < 3; d++)
                ab2 += (centre[a][d] - centre[b][d]) * (centre[a][d] - centre[b][d]);
            for (int p = 0; p < prims; p++) {
                for (int q = 0; q < prims; q++) {
                    double gamma = alpha[a][p] + alpha[b][q];
                    double px = (alpha[a][p] * centre[a][0] + alpha[b][q] * centre[b][0]) / gamma;
                    double py = (alpha[a][p] * centre[a][1] + alpha[b][q] * centre[b][1]) / gamma;
                    double pz = (alpha[a][p] * centre[a][2] + alpha[b][q] * centre[b][2]) / gamma;
                    double scale = coef[a][p] * coef[b][q] * 2.0 * PI / gamma
                        * exp(-alpha[a][p] * alpha[b][q] / gamma * ab2);
                    for (int c = 0; c < atoms; c++) {
                        double dx = px - nucleus[c][0], dy = py - nucleus[c][1], dz = pz - nucleus[c][2];
                        double t = gamma * (dx * dx + dy * dy + dz * dz);
                        double f0 = t < 1e-8 ? 1.0 - t / 3.0 : 0.5 * sqrt(PI / t) * erf(sqrt(t));
                        sum -= charge[c] * scale * f0;
                    }
                }
            }
            V[a][b] = sum;
            V[b][a] = sum;
        }
    }
#pragma endscop
}
