#include <math.h>
void f(int n, double a[n], double b[n], double c[n + 1], double s[2]) {
#pragma scop
BODY
#pragma endscop
}

// taken: sum of products
for (int i = 0; i < n; i++) s[0] += a[i] * (1.0 / sqrt(b[i] + 1.0));

// taken: handed on
for (int i = 0; i < n; i++) {
  double r = sqrt(a[i] * a[i] + 1.0);
  c[i] += r / b[i];
  c[i + 1] -= r / b[i];
}

// taken: through others
for (int i = 0; i < n; i++) {
  double d[3], r2 = 0.5;
  for (int k = 0; k < 3; k++) {
    d[k] = a[i] - b[k];
    r2 += d[k] * d[k];
  }
  double r = sqrt(r2);
  s[0] += 0.5 * (r - 1.0) * (r - 1.0);
  for (int k = 0; k < 3; k++) {
    c[i] += (r - 1.0) / r * d[k];
    c[i + 1] -= (r - 1.0) / r * d[k];
  }
}

// taken: set twice
for (int i = 0; i < n; i++) {
  double t = a[i] + 1.0;
  s[0] = s[0] * 0.5 + sqrt(t);
  t = b[i] + t;
  s[1] = s[1] * 0.5 + 1.0 / t;
}

// taken: beside a chain
for (int i = 0; i < n; i++) s[0] = sqrt(s[0]) + a[i] * (1.0 / sqrt(b[i]));

// kept: calls
for (int i = 0; i < n; i++) {
  double r = hypot(a[i], b[i]);
  s[0] += a[i] * (1.0 / sqrt(r)) + r;
}

// kept: few
for (int i = 0; i < n; i++) s[0] += a[i] * (1.0 / b[i]);

// kept: short
for (int i = 0; i < 12; i++) s[0] += a[i] * (1.0 / sqrt(b[i]));

// kept: recurrence
for (int i = 0; i < n; i++) c[i + 1] = sqrt(c[i]) / (c[i] + 1.0);

// kept: handed on by a scalar
double t = 1.0;
for (int i = 0; i < n; i++) {
  s[0] += a[i] * (sqrt(t) / b[i]);
  t = a[i] + 1.0;
}

// kept: elements of before
double d[3] = {0.0};
for (int i = 0; i < n; i++) {
  double t = 1.0;
  for (int k = 0; k < 3; k++) {
    t += d[k];
    d[k] = a[i] + t;
  }
  s[0] += a[i] * (1.0 / sqrt(t));
}

// kept: guarded
for (int i = 0; i < n; i++) s[0] += b[i] > 0.5 ? 1.0 / sqrt(a[i]) : 0.0;

// kept: nothing handed on
for (int i = 0; i < n; i++) c[i] = a[i] / sqrt(b[i]);

// kept: one value
for (int i = 0; i < n; i++) s[0] += a[i] * (1.0 / sqrt(b[0]));

// kept: in every turn
for (int i = 0; i < n; i++)
for (int k = 0; k < 3; k++) s[0] += a[i] * (1.0 / sqrt(b[i + k]));
