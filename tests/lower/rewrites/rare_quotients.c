#include <math.h>
void f(int n, double a[n], double b[n], double c[n], double s[2]) {
#pragma scop
BODY
#pragma endscop
}

// taken: a quotient
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = 1.0 / r; s[0] += f * a[i]; } }

// taken: two sums
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = 1.0 / (r * r); s[0] += f * a[i]; s[1] -= f * b[i]; } }

// taken: through others
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double q = sqrt(r); double f = a[i] / q; s[0] += f * f; } }

// taken: changed
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = a[i] / r; f = f > 2.0 ? 2.0 : f; s[0] += f * a[i]; } }

// taken: both ends of a pair
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) { double f = 1.0 / r; s[0] += f * a[i]; c[i] -= f * a[i]; } }

// taken: in the sum itself
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] += a[i] * (b[i] / r); }

// kept: an extreme
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] = fmax(s[0], a[i]); }

// kept: no quotient
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] += r * a[i]; }

// kept: elements of their own
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) c[i] += a[i] * (b[i] / r); }

// kept: read elsewhere
for (int i = 0; i < n; i++) { double r = a[i] * b[i]; double f = 1.0 / r; if (r < 0.5) s[0] += f * a[i]; c[i] = f; }

// kept: changed from before
double f = 1.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; f = f * 0.5 + a[i] / r; if (r < 0.5) s[0] += f * a[i]; }

// kept: of before
double f = 1.0; for (int i = 0; i < n; i++) { double r = a[i] * b[i]; if (r < 0.5) s[0] += f * a[i]; f = 1.0 / r; c[i] = r; }
