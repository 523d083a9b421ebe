/* Hours spread over projects: gain[p][h] is what h hours bring to project p. A knapsack whose
   items may be taken in any amount, so that nothing is looked up at a weight. */
#include <limits.h>

void kernel_effort_allocation(int projects, int hours, int gain[projects][hours],
                              int total[projects][hours])
{
    int p, c, h;

#pragma scop
    for (c = 0; c < hours; c++)
        total[0][c] = gain[0][c];
    for (p = 1; p < projects; p++)
        for (c = 0; c < hours; c++) {
            int best = INT_MIN;
            for (h = 0; h <= c; h++) {
                int v = total[p - 1][c - h] + gain[p][h];
                best = v > best ? v : best;
            }
            total[p][c] = best;
        }
#pragma endscop
}
