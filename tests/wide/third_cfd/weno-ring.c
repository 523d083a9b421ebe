/* Transport around rings of cells: fifth-order WENO reconstruction, third-order Runge-Kutta. */
#ifndef EXTENT_steps
#define EXTENT_steps 12
#define EXTENT_rings 24
#define EXTENT_cells 1024
#endif
#define NT EXTENT_steps
#define NR EXTENT_rings
#define NC EXTENT_cells
#define EPS 1e-6
#define AT(r, c) ((r) * NC + (c))

static inline double weno5(double a, double b, double c, double d, double e)
{
    double b0 = 13.0 / 12.0 * (a - 2.0 * b + c) * (a - 2.0 * b + c) + 0.25 * (a - 4.0 * b + 3.0 * c) * (a - 4.0 * b + 3.0 * c);
    double b1 = 13.0 / 12.0 * (b - 2.0 * c + d) * (b - 2.0 * c + d) + 0.25 * (b - d) * (b - d);
    double b2 = 13.0 / 12.0 * (c - 2.0 * d + e) * (c - 2.0 * d + e) + 0.25 * (3.0 * c - 4.0 * d + e) * (3.0 * c - 4.0 * d + e);
    double w0 = 0.1 / ((EPS + b0) * (EPS + b0));
    double w1 = 0.6 / ((EPS + b1) * (EPS + b1));
    double w2 = 0.3 / ((EPS + b2) * (EPS + b2));
    double q0 = (2.0 * a - 7.0 * b + 11.0 * c) / 6.0;
    double q1 = (-b + 5.0 * c + 2.0 * d) / 6.0;
    double q2 = (2.0 * c + 5.0 * d - e) / 6.0;
    return (w0 * q0 + w1 * q1 + w2 * q2) / (w0 + w1 + w2);
}

void kernel_weno_ring(double dt, double u[NR * NC], double stage[NR * NC], double flux[NR * NC],
                      double mass[NR])
{
#pragma scop
    for (int t = 0; t < NT; t++) {
        for (int i = 0; i < NR * NC; i++)
            stage[i] = u[i];
        for (int rk = 0; rk < 3; rk++) {
            /* the flux out of each cell to the right */
            for (int r = 0; r < NR; r++)
                for (int c = 0; c < NC; c++)
                    flux[AT(r, c)] = weno5(stage[AT(r, (c + NC - 2) % NC)], stage[AT(r, (c + NC - 1) % NC)],
                                           stage[AT(r, c)], stage[AT(r, (c + 1) % NC)],
                                           stage[AT(r, (c + 2) % NC)]);
            for (int r = 0; r < NR; r++)
                for (int c = 0; c < NC; c++) {
                    int left = c == 0 ? NC - 1 : c - 1;
                    double moved = stage[AT(r, c)] - dt * (flux[AT(r, c)] - flux[AT(r, left)]);
                    if (rk == 0)
                        stage[AT(r, c)] = moved;
                    else if (rk == 1)
                        stage[AT(r, c)] = 0.75 * u[AT(r, c)] + 0.25 * moved;
                    else
                        u[AT(r, c)] = u[AT(r, c)] / 3.0 + 2.0 / 3.0 * moved;
                }
        }
    }
    for (int r = 0; r < NR; r++) {
        mass[r] = 0.0;
        for (int c = 0; c < NC; c++)
            mass[r] += u[AT(r, c)];
    }
#pragma endscop
}
