/* Reciprocal part of an Ewald sum: cosine and sine sums of the charges for every wave vector. */
#include <math.h>

void kernel_structure_factors(int waves, int n, const double k[waves][3], const double pos[n][3],
                              const double q[n], double re[waves], double im[waves],
                              double power[waves])
{
#pragma scop
    for (int w = 0; w < waves; w++) {
        re[w] = 0.0;
        im[w] = 0.0;
        for (int i = 0; i < n; i++) {
            double phase = k[w][0] * pos[i][0] + k[w][1] * pos[i][1] + k[w][2] * pos[i][2];
            re[w] += q[i] * cos(phase);
            im[w] += q[i] * sin(phase);
        }
        power[w] = (re[w] * re[w] + im[w] * im[w])
                   / (k[w][0] * k[w][0] + k[w][1] * k[w][1] + k[w][2] * k[w][2]);
    }
#pragma endscop
}
