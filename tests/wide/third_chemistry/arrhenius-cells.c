/* Reactions in the cells of a grid: Arrhenius rates, stoichiometric tables, explicit substeps that
   keep concentrations from falling below zero. */
#include <math.h>

#define SPECIES 9
#define REACTIONS 12

static const double prefactor[REACTIONS] = {3.5, 5.1, 2.2, 2.9, 1.7, 4.9, 0.7, 1.4, 0.2, 0.3, 2.2, 0.8};
static const double barrier[REACTIONS] = {1.7, 0.6, 0.3, 1.3, 0.0, 0.0, 0.0, 0.1, 0.0, 0.7, 0.4, 0.0};
static const double release[REACTIONS] = {-0.7, 0.1, -0.6, 0.7, 4.3, 5.0, 2.3, 1.5, 0.9, 0.2, -2.1, 1.6};
/* what a reaction takes (left) and makes, molecules of each species */
static const signed char left[REACTIONS][SPECIES] = {
    {1, 0, 0, 1, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 1, 0, 0, 0, 0}, {0, 0, 1, 0, 1, 0, 0, 0, 0},
    {0, 0, 0, 0, 2, 0, 0, 0, 0}, {2, 0, 0, 0, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 1, 0, 0, 0, 1},
    {1, 1, 0, 0, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 0, 1, 0, 0, 0}, {0, 0, 0, 1, 0, 1, 0, 0, 0},
    {0, 0, 0, 0, 1, 1, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 1, 0, 1}, {0, 0, 0, 0, 0, 2, 0, 1, 0},
};
static const signed char right[REACTIONS][SPECIES] = {
    {0, 0, 0, 1, 1, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0, 0, 1, 0}, {1, 0, 0, 0, 0, 0, 0, 1, 0},
    {0, 0, 0, 1, 0, 0, 0, 1, 0}, {0, 0, 1, 0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 0, 0, 1, 1},
    {0, 0, 0, 0, 0, 1, 0, 0, 1}, {0, 0, 0, 0, 2, 0, 0, 0, 0}, {0, 1, 0, 0, 1, 0, 0, 0, 0},
    {0, 1, 0, 0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 2, 0, 0, 0, 1}, {0, 1, 0, 0, 0, 0, 1, 1, 0},
};

void kernel_arrhenius_cells(int cells, int steps, double dt, double conc[SPECIES][cells],
                            double temp[cells], double heat[1])
{
    double total = 0.0;

#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int c = 0; c < cells; c++) {
            double rate[REACTIONS], change[SPECIES];
            double warm = 0.0;
            for (int s = 0; s < SPECIES; s++)
                change[s] = 0.0;
            for (int r = 0; r < REACTIONS; r++) {
                rate[r] = prefactor[r] * exp(-barrier[r] / (temp[c] + 0.5));
                for (int s = 0; s < SPECIES; s++) {
                    if (left[r][s] == 1)
                        rate[r] *= conc[s][c];
                    else if (left[r][s] == 2)
                        rate[r] *= conc[s][c] * conc[s][c];
                }
                warm += release[r] * rate[r];
                for (int s = 0; s < SPECIES; s++)
                    change[s] += (right[r][s] - left[r][s]) * rate[r];
            }
            for (int s = 0; s < SPECIES; s++) {
                conc[s][c] += dt * change[s];
                if (conc[s][c] < 0.0)
                    conc[s][c] = 0.0;
            }
            temp[c] += 0.125 * dt * warm;
            total += warm;
        }
    }
    heat[0] = total;
#pragma endscop
}
