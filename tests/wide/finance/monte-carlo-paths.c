/* Paths of a geometric motion from given normals; the mean of a call and of its square. */
#include <math.h>
#ifndef EXTENT_paths
#define EXTENT_paths 200000
#endif
#ifndef EXTENT_steps
#define EXTENT_steps 50
#endif
#define PATHS EXTENT_paths
#define STEPS EXTENT_steps

void kernel_monte_carlo_paths(int paths, int steps, double spot, double strike, double drift,
                              double vol, double z[PATHS][STEPS], double moments[2])
{
    int p, t;
    double s, payoff, sum, squares;

#pragma scop
    sum = 0.0;
    squares = 0.0;
    for (p = 0; p < PATHS; p++) {
        s = spot;
        for (t = 0; t < STEPS; t++)
            s *= exp(drift + vol * z[p][t]);
        payoff = s > strike ? s - strike : 0.0;
        sum += payoff;
        squares += payoff * payoff;
    }
    moments[0] = sum / PATHS;
    moments[1] = squares / PATHS;
#pragma endscop
}
