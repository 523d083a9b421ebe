#include <math.h>
void f(int n, double a[n], double b[n], double c[n], double s[2]) {
#pragma scop
BODY
#pragma endscop
}

// taken: elements that the loop reads
for (int i = 0; i < n; i++) a[i] = a[i] + exp(a[i] * b[i]);

// kept: no function
for (int i = 0; i < n; i++) a[i] = a[i] + a[i] * b[i];
