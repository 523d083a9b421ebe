#include <math.h>
void f(int n, double a[n], double b[n], double c[n]) {
#pragma scop
BODY
#pragma endscop
}

// taken: branches by stage
for (int t = 0; t < 3; t++) {
    for (int i = 0; i < n; i++) c[i] = a[i] * a[n - 1 - i];
    for (int i = 0; i < n; i++) {
        double p = a[i] * 0.5 - c[n - 1 - i];
        if (t == 0) a[i] = p;
        else if (t == 1) a[i] = 0.25 * b[i] + p;
        else b[i] = b[i] * 2.0 + p;
    }
}

// kept: few iterations
for (int t = 0; t < 3; t++) {
    for (int i = 0; i < n; i++) c[i] = a[i] * a[n - 1 - i];
    for (int i = 0; i < 16; i++) {
        double p = a[i] * 0.5 - c[n - 1 - i];
        if (t == 0) a[i] = p;
        else if (t == 1) a[i] = 0.25 * b[i] + p;
        else b[i] = b[i] * 2.0 + p;
    }
}

// kept: data
for (int t = 0; t < 3; t++) {
    for (int i = 0; i < n; i++) c[i] = a[i] * a[n - 1 - i];
    for (int i = 0; i < n; i++) {
        double p = a[i] * 0.5 - c[n - 1 - i];
        if (p > 0) a[i] = p;
        else if (p < -1) a[i] = 0.25 * b[i] + p;
        else b[i] = b[i] * 2.0 + p;
    }
}

// kept: no vectors
for (int t = 0; t < 3; t++) {
    for (int i = 0; i < n; i++) c[i] = a[i] * a[n - 1 - i];
    for (int i = 0; i < n; i++) {
        double p = a[i] * 0.5 - c[n - 1 - i];
        if (t == 0) a[i] = p;
        else if (t == 1) a[i] = 0.25 * b[i] + p;
        else b[0] = b[i] * 2.0 + p;
    }
}
