#include <math.h>
void f(int n, int m, double cut, double a[n], double c[m], double p[n], double q[n], int hits[n]) {
#pragma scop
  for (int i = 0; i < n; i++) {
    double s = 0, t = 0;
    int k = 0;
    for (int j = 0; j < m; j++) {
      double x = a[i] - c[j];
      double r = x * x;
      BODY
    }
    p[i] = s;
    q[i] = t;
    hits[i] = k;
  }
#pragma endscop
}

// taken: roots and quotients
if (r < cut && r > 0) { double d = sqrt(r); s += d * d; t += x / d; }

// taken: a count beside them
if (r < cut) { t += x / (1 + sqrt(r)); k++; }

// taken: what all lanes store
s += x; if (r < cut) t += x / (1 + sqrt(r)) / (2 + r);

// taken: a root asked for
double d = sqrt(r); if (d < cut) { s += x / (1 + d); t += d / (2 + r); }

// taken: conditions inside
if (r < cut) { double d = sqrt(r); s += 1 / (1 + d); if (x > 0) t += x / d; }

// kept: no roots or quotients
if (r < cut) { s += x * r; t += x; }

// kept: needed by all lanes
double d = sqrt(r); s += d / (1 + r); if (r < cut) t += d / (1 + r);

// kept: a sum in the condition
if (s < cut) { double d = sqrt(r); s += x / (1 + d) / (2 + d); }

// kept: the same in all lanes
if (c[j] < cut) { double d = sqrt(r); s += x / (1 + d) / (2 + d); }

// kept: read beside it
if (r < cut) s += x / (1 + sqrt(r)) / (2 + r); t += s;

// kept: another value
s = r < cut ? s + x / (1 + sqrt(r)) / (2 + r) : x;
