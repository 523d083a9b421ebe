#include <math.h>
void f(int n, double a[n], double b[n], double s[2], double c[2][n]) {
#pragma scop
BODY
#pragma endscop
}

// taken: sum
for (int i = 0; i < n; i++) s[0] += exp(a[i]);

// taken: two
for (int i = 0; i < n; i++) { s[0] += exp(a[i]) * b[i]; s[1] -= exp(b[i]) + exp(a[i]); }

// taken: inside
for (int i = 0; i < n; i++) {
  double t = 0;
  for (int j = 0; j < 3; j++) t += a[i] * b[j];
  s[0] = s[0] * 0.5 + exp(t);
}

// taken: nested
for (int i = 0; i < n; i++) s[0] += exp(exp(a[i]));

// taken: shared
for (int i = 0; i < n; i++) {
  double t = a[i] * b[0];
  s[0] += exp(t) * b[i];
  s[1] -= exp(t + 1.0) / (1.0 + exp(t));
}

// taken: own elements
for (int i = 0; i < n; i++) { a[i] = exp(a[i] - b[0]); s[0] += a[i]; }

// taken: rows
for (int i = 1; i + 1 < n; i++) {
  c[0][i] = exp(c[0][i] - b[0]);
  c[1][i] = exp(c[1][i] - b[1]) + c[0][i];
  s[0] += c[0][i] * c[1][i];
}

// kept: recurrence
for (int i = 1; i < n; i++) a[i] = exp(a[i - 1]);

// kept: argument of the sum
for (int i = 0; i < n; i++) s[0] += exp(s[0] - a[i]);

// kept: guarded
for (int i = 0; i < n; i++) s[0] += i % 3 ? exp(a[i]) : 0.0;

// kept: one value
for (int i = 0; i < n; i++) s[0] += a[i] * exp(b[0]);

// kept: few
for (int i = 0; i < 7; i++) s[0] += exp(a[i]);

// kept: argument used again
for (int i = 1; i < n; i++) {
  double t = a[i - 1] + b[i];
  a[i] = exp(t);
}

// kept: changed before
for (int i = 0; i < n; i++) { a[i] = a[i] + s[0]; s[0] += exp(a[i]); }

// kept: changed between
for (int i = 0; i < n; i++) {
  a[i] = s[0] + exp(a[i]);
  s[0] += exp(a[i]);
}

// kept: elements of others
for (int i = 1; i < n; i++) { a[i] = exp(a[i]); s[0] += a[i - 1]; }

// kept: other function
for (int i = 0; i < n; i++) s[0] += log(a[i] + 1.0);
