#include <math.h>
void f(int n, int m, double a[n], double b[n], double s[1]) {
#pragma scop
BODY
#pragma endscop
}

// taken: ring
for (int c = 0; c < n; c++) {
    int l = c < 1 ? c + n - 1 : c - 1, r = c + 1 < n ? c + 1 : c + 1 - n;
    double p = a[l] - a[c], q = p * a[r];
    b[c] = q / (p * p + 1.0) + q * p;
}

// taken: walls
for (int c = 0; c < n; c++) {
    int l = c > 0 ? c - 1 : 0, r = c < n - 1 ? c + 1 : n - 1;
    double p = a[r] - a[l], q = p * p;
    if (c == 2) q = q + 1.0;
    b[c] = q * p + q;
}

// kept: inside
for (int i = 0; i < n; i++) { double p = a[i]; if (i < m) p = b[i]; b[i] = p * p; }

// kept: few
for (int t = 0; t < 3; t++) for (int i = 0; i < n; i++) { if (t == 0) b[i] = a[i]; else if (t == 1) b[i] += a[i]; else a[i] = b[i]; }

// kept: data
for (int i = 0; i < n; i++) { double p = a[i]; if (p > 0.0) b[i] = p; }
