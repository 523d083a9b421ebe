/* 1-D Euler equations of gas, Rusanov's flux; every flux is a function of two states. */
#include <math.h>

static const double gamma_gas = 1.4;

static double pressure(double rho, double mom, double ene)
{
    double kinetic = 0.5 * mom * mom / rho;
    return (gamma_gas - 1.0) * (ene - kinetic);
}

static double speed(double rho, double mom, double ene)
{
    return fabs(mom / rho) + sqrt(gamma_gas * pressure(rho, mom, ene) / rho);
}

static inline double fastest(double a, double b)
{
    double s;
    if (a > b)
        s = a;
    else
        s = b;
    return s;
}

static double rusanov(double fl, double fr, double ul, double ur, double s)
{
    return 0.5 * (fl + fr) - 0.5 * s * (ur - ul);
}

void euler(int n, int steps, double c, double *rho, double *mom, double *ene,
           double *f0, double *f1, double *f2)
{
    double sl, sr, s, pl, pr;
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n - 1; i++) {
            sl = speed(rho[i], mom[i], ene[i]);
            sr = speed(rho[i + 1], mom[i + 1], ene[i + 1]);
            s = fastest(sl, sr);
            pl = pressure(rho[i], mom[i], ene[i]);
            pr = pressure(rho[i + 1], mom[i + 1], ene[i + 1]);
            f0[i] = rusanov(mom[i], mom[i + 1], rho[i], rho[i + 1], s);
            f1[i] = rusanov(mom[i] * mom[i] / rho[i] + pl,
                            mom[i + 1] * mom[i + 1] / rho[i + 1] + pr, mom[i], mom[i + 1], s);
            f2[i] = rusanov((ene[i] + pl) * mom[i] / rho[i],
                            (ene[i + 1] + pr) * mom[i + 1] / rho[i + 1], ene[i], ene[i + 1], s);
        }
        for (int i = 1; i < n - 1; i++) {
            rho[i] = rho[i] - c * (f0[i] - f0[i - 1]);
            mom[i] -= c * (f1[i] - f1[i - 1]);
            ene[i] -= c * (f2[i] - f2[i - 1]);
        }
    }
#pragma endscop
}
