void f(int n, double x[n]) {
#pragma scop
BODY
#pragma endscop
}

// taken: what all iterations ask for has one value: none writes x[0]
for (int j = 1; j < n; j++)
  if (x[0] > 0.5 && x[j] < 0.5)
    x[j] += 1.0;
