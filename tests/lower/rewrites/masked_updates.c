#include <math.h>
void f(int n, int a[n], int b[n], int out[n]) {
#pragma scop
BODY
#pragma endscop
}

// taken: set to zero
int run = 3; for (int i = 0; i < n; i++) { if (a[i] > b[i]) run = 0; run += a[i]; out[i] = run; }

// taken: kept otherwise
int run = 3; for (int i = 0; i < n; i++) { run = a[i] > b[i] ? run + 1 : 0; out[i] = run; }

// taken: counted
int run = 3; for (int i = 0; i < n; i++) { if (a[i] > b[i]) run = run - 7; out[i] = run; }

// taken: two of them
int number = 0; int run = 3; for (int i = 0; i < n; i++) { if (a[i] == b[i]) { number += 1; run = 0; } run += a[i] + number; out[i] = run; }

// kept: another number
int run = 3; for (int i = 0; i < n; i++) { run = a[i] > b[i] ? run + 1 : 5; out[i] = run; }

// kept: nothing of before
int run = 3; for (int i = 0; i < n; i++) { run = a[i] > b[i] ? a[i] : 0; out[i] = run; }

// kept: an element
int run = 3; for (int i = 0; i < n; i++) { run = a[i] > b[i] ? run + a[i] : 0; out[i] = run; }

// kept: a quotient
int run = 3; for (int i = 0; i < n; i++) { run = a[i] > b[i] ? run / 3 : 0; out[i] = run; }

// kept: an element of its own
int run = 3; for (int i = 0; i < n; i++) { out[i] = a[i] > b[i] ? out[i] : 0; run += a[i]; out[i] = run; }
