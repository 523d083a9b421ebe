/* Moments of the charges of each cell up to quadrupoles, and the potential that cells further than
   one apart along a line feel from them. */
#include <math.h>

void kernel_multipole_far_field(int cells, int each, double pos[cells][each][3],
                                double q[cells][each], double mono[cells], double dip[cells][3],
                                double quad[cells][3][3], double phi[cells])
{
    int c, d, p, a, b;

#pragma scop
    for (c = 0; c < cells; c++) {
        mono[c] = 0.0;
        for (a = 0; a < 3; a++) {
            dip[c][a] = 0.0;
            for (b = 0; b < 3; b++)
                quad[c][a][b] = 0.0;
        }
        for (p = 0; p < each; p++) {
            double r2 = pos[c][p][0] * pos[c][p][0] + pos[c][p][1] * pos[c][p][1]
                        + pos[c][p][2] * pos[c][p][2];
            mono[c] += q[c][p];
            for (a = 0; a < 3; a++) {
                dip[c][a] += q[c][p] * pos[c][p][a];
                for (b = 0; b <= a; b++)
                    quad[c][a][b] += q[c][p] * (3 * pos[c][p][a] * pos[c][p][b]
                                                - (a == b ? r2 : 0.0));
            }
        }
        for (a = 0; a < 3; a++)
            for (b = a + 1; b < 3; b++)
                quad[c][a][b] = quad[c][b][a];
    }
    for (c = 0; c < cells; c++) {
        phi[c] = 0.0;
        for (d = 0; d < cells; d++) {
            if (d < c - 1 || d > c + 1) {
                double r = c - d;
                double r3 = r * r * fabs(r);
                phi[c] += mono[d] / fabs(r) + dip[d][0] * r / r3
                          + 0.5 * quad[d][0][0] * r * r / (r3 * r * r);
            }
        }
    }
#pragma endscop
}
