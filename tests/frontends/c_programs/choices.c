/* Scalars that branches assign, shifts by data, functions of <math.h>, elements beyond bounds. */
#include <math.h>

void both_sides(int n, int x[n], int y[n], int out[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        int one, other;
        if (x[i] < 3) {
            one = y[i];
            other = x[i];
        } else if (x[i] < 4) {
            one = x[i];
            other = 7;
            one = one + other;
        } else {
            other = y[i];
            one = other * 2;
        }
        out[i] = one - 2 * other;
    }
#pragma endscop
}

void outer_scalars(int n, int x[n], int y[n], int out[n])
{
    int one, other, last = 4;
#pragma scop
    for (int i = 0; i < n; i++) {
        if (x[i] < 3) {
            one = y[i];
            other = 1;
        } else {
            one = x[i] + last;
            other = last;
            last = 2;
        }
        out[i] = one * other + last;
    }
#pragma endscop
}

void same_condition(int n, int x[n], int y[n], int out[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        int one;
        if (x[i] < 3)
            one = y[i];
        if (x[i] < 3)
            out[i] = one;
    }
#pragma endscop
}

void affine_and_data(int n, double x[n], double out[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        double low, high, sum = 0.0;
        if (i > 3 && x[i] < 1.0) {
            low = -x[i];
            high = x[i] * 2;
            for (int k = 0; k < 3; k++) {
                sum += low;
                low = low * 0.5;
            }
        } else {
            low = x[i];
            high = 1.0;
        }
        out[i] = high - low + sum;
    }
#pragma endscop
}

void shifts(int n, int x[n], unsigned char b[n], short s[n], unsigned u[n], long l[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        u[i] |= 1u << i;
        l[i] += ((long)x[i] << (x[i] + i)) - (l[i] >> x[i]);
        s[i] = (s[i] << x[i]) - (x[i] >> b[i]);
        b[i] = (b[i] << x[i]) >> b[i];
        x[i] <<= i & 7;
        x[i] = x[i] - (-x[i] >> (i & 3));
    }
#pragma endscop
}

void one_array(int n, int edge[n], int dom[19])
{
#pragma scop
    for (int v = 0; v < n; v++)
        if (edge[v] > 2)
            for (int w = 0; w < n; w++)
                dom[w] += v;
#pragma endscop
}

void real_functions(int n, double x[n], double y[n], float s[n], double out[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        out[i] = cbrt(x[i]) + erf(x[i]) * erfc(y[i]) + hypot(x[i], y[i]) + log1p(x[i]);
        out[i] += round(x[i] * 3) - rint(y[i] * 3) + nearbyint(x[i] * 5) * trunc(x[i] * -7);
        out[i] += fmod(x[i] * 9, y[i]) + remainder(x[i] * 9, y[i]) + copysign(x[i], 1 - y[i]);
        out[i] += expm1(x[i]) + asin(x[i] / 2) - acos(y[i] / 2) + atan(x[i]) * atan2(x[i], -y[i]);
        out[i] += sinh(x[i]) + cosh(y[i]) + asinh(x[i]) + acosh(1 + y[i]) + atanh(x[i] / 3);
        out[i] += tgamma(x[i]) + fdim(x[i], y[i]) + tan(x[i] / 2);
        s[i] = cbrtf(s[i]) + erff(s[i]) + roundf(s[i] * 3) + fmodf(s[i] * 9, 0.7f) + tgammaf(s[i]);
    }
#pragma endscop
}
