/* Sum, least and greatest of every column within groups of equally many rows. */
#include <math.h>

void kernel_group_extremes(int groups, int members, int columns,
                           double x[groups][members][columns], double sum[groups][columns],
                           double least[groups][columns], double most[groups][columns])
{
    int g, k, c;

#pragma scop
    for (g = 0; g < groups; g++)
        for (c = 0; c < columns; c++) {
            double s = x[g][0][c], lo = s, hi = s;
            for (k = 1; k < members; k++) {
                s += x[g][k][c];
                lo = fmin(lo, x[g][k][c]);
                hi = fmax(hi, x[g][k][c]);
            }
            sum[g][c] = s;
            least[g][c] = lo;
            most[g][c] = hi;
        }
#pragma endscop
}
