/* Contracted integrals from primitive ones, shells of six Cartesian components. */
#ifndef EXTENT_ns
#define EXTENT_ns 2000
#endif
#define PRIMS 6
#define COMPS 6
#define FUNCS 3

void kernel_three_centre_contract(int ns, double prim[EXTENT_ns][PRIMS][PRIMS][COMPS],
                                  double coef[FUNCS][PRIMS],
                                  double out[EXTENT_ns][FUNCS][FUNCS][COMPS])
{
    int s, f, g, p, q, c;
#pragma scop
    for (s = 0; s < ns; s++)
        for (f = 0; f < FUNCS; f++)
            for (g = 0; g < FUNCS; g++) {
                for (c = 0; c < COMPS; c++)
                    out[s][f][g][c] = 0.0;
                for (p = 0; p < PRIMS; p++)
                    for (q = 0; q < PRIMS; q++)
                        for (c = 0; c < COMPS; c++)
                            out[s][f][g][c] += coef[f][p] * coef[g][q] * prim[s][p][q][c];
            }
#pragma endscop
}
