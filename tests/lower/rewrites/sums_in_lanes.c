#include <math.h>
void f(int n, double a[n], double b[n], double c[n], double s[2]) {
#pragma scop
BODY
#pragma endscop
}

// taken: a term
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = 1.0 / r; t += f - a[i]; } } s[0] = t; s[1] = u;

// taken: a product
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = 1.0 / r; t += f * a[i]; } } s[0] = t; s[1] = u;

// taken: less
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = 1.0 / r; t -= f * a[i]; } } s[0] = t; s[1] = u;

// taken: less a term
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) t -= sqrt(r) / (a[i] + 0.1); } s[0] = t; s[1] = u;

// taken: two sums
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = 1.0 / (r * r); t += f * a[i]; u -= f + b[i]; } } s[0] = t; s[1] = u;

// taken: two conditions in one
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5 && a[i] > 0.3) { double f = sqrt(r); t += f / b[i]; } } s[0] = t; s[1] = u;

// taken: beyond
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) t += sqrt(r - 0.2) / r; } s[0] = t; s[1] = u;

// kept: no quotient
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) t += r * a[i]; } s[0] = t; s[1] = u;

// kept: no condition
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; t += 1.0 / r; } s[0] = t; s[1] = u;

// kept: a quotient for all
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; double f = 1.0 / r; if (f > 2.0) t += f * a[i]; } s[0] = t; s[1] = u;

// kept: an element
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = 1.0 / r; t += f; c[i] = f; } } s[0] = t; s[1] = u;

// kept: one sum by the other
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { t += 1.0 / r; u += t; } } s[0] = t; s[1] = u;

// kept: a product that rounds by itself
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; t += r < 0.5 ? a[i] * (1.0 / r) : -0.0; } s[0] = t; s[1] = u;

// kept: a term of the sum
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) t += 1.0 / (1.0 + t + r); } s[0] = t; s[1] = u;

// kept: a condition on the sum
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (t < 3.0) t += 1.0 / r; } s[0] = t; s[1] = u;

// kept: a condition on a sum
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (u < 3.0) { t += 1.0 / r; u += r; } } s[0] = t; s[1] = u;

// kept: two conditions
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) t += 1.0 / r; if (r < 0.2) u += 1.0 / r; } s[0] = t; s[1] = u;

// kept: no sum
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) t = 1.0 / r; } s[0] = t; s[1] = u;

// kept: a call
double t = 0.0, u = 0.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) t += erf(r) / r; } s[0] = t; s[1] = u;
