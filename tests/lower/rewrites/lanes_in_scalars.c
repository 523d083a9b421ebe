void f(int n, double a[n], double b[n], double c[n]) {
#pragma scop
BODY
#pragma endscop
}

// taken: sums up to the row
for (int i = 0; i < n; i++) {
  double s = 0;
  for (int j = 0; j <= i; j++) s += a[j] * b[i - j];
  c[i] = s;
}

// taken: the greatest and a count
for (int i = 0; i < n; i++) {
  double top = -1e9, count = 0;
  for (int j = i; j < n; j++) {
    double v = a[j] + b[j - i];
    top = v > top ? v : top;
    count += v > 3 ? 1 : 0;
  }
  c[i] = top + count;
}

// kept: whole rows
for (int i = 0; i < n; i++) {
  double s = 0;
  for (int j = 0; j < n; j++) s += a[j] * b[j];
  c[i] = s;
}
