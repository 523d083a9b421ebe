#include <math.h>

// told: sums of rows
void f(int n, int m, int x[n][m], int s[n]) {
#pragma scop
  for (int k = 0; k < n; k++)
    for (int j = 0; j < m; j++) s[k] += x[k][j];
#pragma endscop
}

// told: sums of a scalar
void f(int n, int m, int x[n][m], int s[n]) {
#pragma scop
  for (int k = 0; k < n; k++)
    for (int j = 0; j < m; j++) { int d = x[k][j] - 7; s[k] += d * d; }
#pragma endscop
}

// told: counts
void f(int n, int m, int x[n][m], int s[n]) {
#pragma scop
  for (int k = 0; k < n; k++)
    for (int j = 0; j < m; j++) if (x[k][j] > 3) s[k]++;
#pragma endscop
}

// left: sums of another type: compilers know that they lie apart
void f(int n, int m, short y[m], int s[n]) {
#pragma scop
  for (int k = 0; k < n; k++)
    for (int j = 0; j < m; j++) s[k] += y[j];
#pragma endscop
}

// left: a recurrence
void f(int n, int m, int x[n][m], int s[n]) {
#pragma scop
  for (int k = 0; k < n; k++)
    for (int j = 0; j < m; j++) s[k] += s[k] * x[k][j];
#pragma endscop
}

// left: running sums
void f(int n, int m, int x[n][m], int s[n]) {
#pragma scop
  for (int k = 0; k < n; k++)
    for (int j = 0; j < m; j++) { s[k] += x[k][j]; x[k][j] = s[k]; }
#pragma endscop
}

// told: signs of differences
void f(int n, int m, int x[n][m], int s[n]) {
#pragma scop
  for (int k = 0; k < n; k++)
    for (int i = 0; i < m; i++)
      for (int j = i + 1; j < m; j++) { int d = x[k][j] - x[k][i]; s[k] += (d > 0) - (d < 0); }
#pragma endscop
}

// told: extremes under a condition
void f(int m, int n, int a[m], int b[m], int out[2]) {
#pragma scop
  {
    int top = out[0], hits = 0;
    for (int j = 0; j < m; j++) { if (a[j] >= n) hits++; if (a[j] == n) if (b[j] > top) top = b[j]; }
    out[0] = top;
    out[1] = hits;
  }
#pragma endscop
}

// left: extremes alone
void f(int m, int n, int a[m], int b[m], int out[2]) {
#pragma scop
  {
    int top = out[0], hits = 0;
    for (int j = 0; j < m; j++) { if (a[j] >= n) hits++; if (b[j] > top) top = b[j]; }
    out[0] = top;
    out[1] = hits;
  }
#pragma endscop
}

// told: chosen numbers in a recurrence
void f(int n, double a[n], double b[n], double s[1]) {
#pragma scop
  for (int i = 0; i < n; i++) { double t = a[i] > b[i] ? a[i] - b[i] : a[i]; s[0] = s[0] * 0.5 + t; }
#pragma endscop
}

// left: chosen quotients
void f(int n, double a[n], double b[n], double s[1]) {
#pragma scop
  for (int i = 0; i < n; i++) { double t = a[i] > b[i] ? a[i] / b[i] : a[i]; s[0] = s[0] * 0.5 + t; }
#pragma endscop
}

// told: updates ahead
void f(int n, int m, int b[n + 6]) {
#pragma scop
  for (int j = 3; j < n; j++) { int o = b[j + 3] + m; if (o > b[j]) b[j] = o; }
#pragma endscop
}

// left: updates behind
void f(int n, int m, int b[n + 6]) {
#pragma scop
  for (int j = 3; j < n; j++) { int o = b[j - 3] + m; if (o > b[j]) b[j] = o; }
#pragma endscop
}

// told: counts backwards
void f(int n, int m, double x[n], double y[n], int c[n]) {
#pragma scop
  for (int d = m; d < n; d++) {
    int over = 3;
    for (int k = 1; k <= m; k++) if (x[d - k] > y[d]) over++;
    c[d] = over;
  }
#pragma endscop
}

// left: sums of absolute differences
void f(int n, int m, unsigned char a[n][m], unsigned char b[n][m], int c[n][8]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int d = 0; d < 8; d++) {
      int s = 0;
      for (int j = 0; j < m - 8; j++) { int x = a[i][j] - b[i][j + d]; s += x < 0 ? -x : x; }
      c[i][d] = s;
    }
#pragma endscop
}
