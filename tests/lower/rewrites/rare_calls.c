#include <math.h>
void f(int n, double a[n], double b[n], double c[n], double s[2]) {
#pragma scop
BODY
#pragma endscop
}

// taken: a sum
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double e = erfc(r); s[0] += e * a[i]; } }

// taken: elements of their own
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) c[i] += a[i] * erf(r); }

// taken: through others
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double d = sqrt(r); double e = erfc(d) / d; double g = (e + exp(r)) / r; s[0] += e; s[1] -= g * a[i]; } }

// taken: two calls
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { s[0] += erfc(r); c[i] = atan2(a[i], r); } }

// taken: two conditions
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] += erfc(r); if (r > 0.4) s[1] += tgamma(r); }

// taken: read on one side
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; double h = hypot(r, b[i]); if (r < 0.5) c[i] += h * cosh(h); else c[i] -= r; }

// taken: both sides
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) c[i] = erfc(r); else c[i] = cbrt(r); }

// taken: a choice
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; c[i] = r < 0.5 ? erfc(r) : r; }

// taken: the other side
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; c[i] = r < 0.5 ? r : erfc(r); }

// taken: one store
for (int i = 0; i < n; i++) c[i] = a[i] < 0.5 ? pow(a[i], b[i]) : 0.0;

// taken: conditions inside
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.8) { double e = erfc(r); if (a[i] > 0.5) s[0] += e * tgamma(r); else s[1] += e; } }

// taken: a condition behind another
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5 && erfc(r) < 0.7) s[0] += a[i]; }

// taken: a call in a condition inside
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double e = erfc(r); if (e < 0.7) c[i] = cbrt(e); } }

// taken: its own variable
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) r = erfc(r); c[i] = r; }

// taken: a condition anew
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; double m = a[i]; if (m < 0.5) s[0] += erfc(r); m = b[i]; if (m < 0.5) s[1] += erf(r); }

// kept: no call
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] += r * sqrt(a[i]); }

// kept: a function of vectors
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] += exp(r); }

// kept: in the condition
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; c[i] = erfc(r) < 0.5 ? erfc(r) : r; }

// kept: the condition itself
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; double e = erfc(r); if (e < 0.5) s[0] += e; }

// kept: on both sides
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; c[i] = r < 0.5 ? erfc(r) : 2.0 * erfc(r); }

// kept: read elsewhere
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; double e = erfc(r); if (r < 0.5) s[0] += e; c[i] = e; }

// kept: of before
double e = 1.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] += e * a[i]; e = erfc(r); c[i] = r; }

// kept: a constant power
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] += pow(r, 1.5); }
