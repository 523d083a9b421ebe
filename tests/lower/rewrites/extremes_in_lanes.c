#include <math.h>
void f(int n, double a[n], double b[n], double c[n], double s[2]) {
#pragma scop
BODY
#pragma endscop
}

// taken: greater
for (int i = 0; i < n; i++) s[0] = a[i] > s[0] ? a[i] : s[0];

// taken: not less
for (int i = 0; i < n; i++) if (a[i] >= s[0]) s[0] = a[i];

// taken: less, turned
for (int i = 0; i < n; i++) if (s[0] > a[i]) s[0] = a[i];

// taken: kept, else NaN too
for (int i = 0; i < n; i++) s[0] = s[0] > a[i] ? s[0] : a[i];

// taken: least kept
for (int i = 0; i < n; i++) s[0] = s[0] <= a[i] ? s[0] : a[i];

// taken: function
for (int i = 0; i < n; i++) s[0] = fmax(s[0], a[i]);

// taken: function, turned
for (int i = 0; i < n; i++) s[0] = fmin(fabs(b[i]), s[0]);

// taken: difference
for (int i = 0; i < n; i++) { double d = fabs(a[i] - b[i]); if (d > s[0]) s[0] = d; }

// taken: kept difference
for (int i = 0; i < n; i++) { double d = a[i] - b[i]; s[0] = s[0] > d ? s[0] : d; }

// taken: less a variable
double m = s[1]; for (int i = 0; i < n; i++) if (a[i] - m > s[0]) s[0] = a[i] - m;

// taken: two
for (int i = 0; i < n; i++) { if (a[i] < s[0]) s[0] = a[i]; if (b[i] > s[1]) s[1] = b[i]; }

// taken: its place
for (int i = 0; i < n; i++) if (a[i] > s[0]) { s[0] = a[i]; s[1] = i; }

// taken: the last place
for (int i = 0; i < n; i++) if (a[i] <= s[0]) { s[1] = i; s[0] = a[i]; }

// taken: what is there
for (int i = 0; i < n; i++) { double d = fabs(a[i]) - b[i]; if (d < s[0]) { s[0] = d; s[1] = c[i]; } }

// taken: sums of products
for (int i = 0; i < n; i++) { double d = a[i] * b[i] + c[i]; if (d > s[0]) s[0] = d; }

// taken: places, from the third on
for (int i = 3; i < n; i++) if (a[i] > s[0]) { s[0] = a[i]; s[1] = i + 2; }

// taken: from the second on
for (int i = 1; i < n; i++) if (a[i] > s[0]) s[0] = a[i];

// taken: of neighbours
for (int i = 0; i < n - 1; i++) if (a[i + 1] > s[0]) s[0] = a[i + 1];

// kept: other numbers
for (int i = 0; i < n; i++) if (a[i] > s[0]) s[0] = b[i];

// kept: the place of another
for (int i = 0; i < n; i++) { if (b[i] > s[1]) s[0] = i; if (a[i] > s[1]) s[1] = a[i]; }

// kept: after it
for (int i = 0; i < n; i++) { if (a[i] > s[0]) s[0] = a[i]; if (a[i] > s[0]) s[1] = i; }

// kept: elements of its own
for (int i = 0; i < n; i++) { c[i] = a[i]; if (a[i] > s[0]) s[0] = a[i]; }

// kept: of what it gathers
for (int i = 0; i < n; i++) if (s[1] > s[0]) s[0] = s[1];

// kept: a sum beside it
for (int i = 0; i < n; i++) { s[1] += a[i]; if (a[i] > s[0]) s[0] = a[i]; }

// kept: every second
for (int i = 0; i < n; i += 2) if (a[i] > s[0]) s[0] = a[i];

// kept: backwards
for (int i = 0; i < n; i++) if (a[n - 1 - i] > s[0]) s[0] = a[n - 1 - i];

// kept: few
for (int i = 0; i < 7; i++) if (a[i] > s[0]) s[0] = a[i];

// taken: what the last iteration set stays
double d = 1.0; for (int i = 0; i < n; i++) { d = fabs(a[i] - b[i]); if (d > s[0]) s[0] = d; } s[1] = d;
