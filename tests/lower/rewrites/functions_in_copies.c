#include <math.h>
void f(int n, double a[n], double b[n], double s[2], double c[2][n]) {
#pragma scop
for (int i = 0; i < n; i++)
  for (int j = 0; j < 2; j++) { BODY }
#pragma endscop
}

// taken: calls of two rows
double t = a[i] * b[j]; c[j][0] += exp(t) * b[i]; s[j] -= exp(t + 1.0) / (1.0 + exp(t));

// kept: bindings read what copies write
double t = s[j]; s[1 - j] += exp(t + a[i]);

// kept: a sum of the other row
s[j] += exp(s[0] + a[i]);

// kept: no function
s[j] += a[i];
