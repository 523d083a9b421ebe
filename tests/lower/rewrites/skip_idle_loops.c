#include <math.h>
void f(int n, double a[n][n], double b[n][n], double c[n][n], double x[n], double y[n][4]) {
#pragma scop
BODY
#pragma endscop
}

// taken: rows
for (int i = 0; i < n; i++)
    for (int p = 0; p < n; p++)
      if (a[i][p] > 0.5)
        for (int j = 0; j < n; j++)
c[i][j] += a[i][p] * b[p][j];

// taken: two
for (int i = 0; i < n; i++)
    if (x[i] > 0.5)
for (int j = 0; j < n; j++) {
  c[i][j] = b[i][j];
  if (b[i][j] > 0.2)
    a[i][j] -= c[i][j];
}

// taken: inside
for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (x[i] > 0.5 && b[i][j] > 0.5)
c[i][j] += 1.0;

// taken: all of a row
for (int i = 0; i < n; i++)
    if (x[i] > 0.5)
      for (int p = 0; p < n; p++)
        for (int j = 0; j < n; j++)
c[i][j] += b[p][j];

// kept: changes its condition
for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (x[i] > 0.5)
x[j] -= 0.25;

// kept: another statement
for (int i = 0; i < n; i++)
for (int j = 0; j < n; j++) {
  if (x[i] > 0.5)
    c[i][j] += 1.0;
  a[i][j] = 0.0;
}

// kept: two values
for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
c[i][j] = x[i] > 0.5 ? 1.0 : 2.0;

// kept: few
for (int i = 0; i < n; i++)
    for (int j = 0; j < 4; j++)
      if (x[i] > 0.5)
y[i][j] += 1.0;

// kept: asked for where another holds
for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (b[i][j] > 0.5 && x[i] > 0.5)
c[i][j] += 1.0;

// kept: each where another holds
for (int i = 0; i < n; i++)
for (int j = 0; j < n; j++) {
  if (b[i][j] > 0.5 && x[i] > 0.5)
    c[i][j] += 1.0;
  if (b[i][j] < 0.5 && x[i] > 0.5)
    a[i][j] += 1.0;
}

// kept: moves with the loop
for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (x[j] > 0.5)
c[i][j] += 1.0;
