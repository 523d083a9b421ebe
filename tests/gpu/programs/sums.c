/* Scalars that a region reads and writes, a loop variable that is read behind it, locals. */
#include <stdio.h>

static int calls;

static double dot(int n, const float *x, const float y[n], register double start)
{
    double total = start, first;
    int i;
    calls++;
#pragma scop
    first = x[0] * 2;
    for (i = 0; i < n; i++)
        total += x[i] * y[i];
    total = total + first;
#pragma endscop
    return total + i;
}

int main(void)
{
    float x[33], y[33];
    long long counts[33];
    unsigned char bytes[33];
    int limit = 20, n = 33;
#pragma scop
    for (int i = 0; i < n; i++) {
        double local = i * 0.5;
        x[i] = local + 1;
        y[i] = 3 - local;
    }
#pragma endscop
    for (int i = 0; i < n; i++)
        bytes[i] = i * 9;
#pragma scop
    for (int i = 0; i < limit; i++) {
        counts[i] = bytes[i] * 3000000000LL + i;
        counts[i] = bytes[i] > 90 ? -counts[i] : counts[i];
    }
#pragma endscop
    printf("%.6f\n", dot(n, x, y, 0.5));
    printf("%.6f %d\n", dot(7, x + 2, y, -1), calls);
    for (int i = 0; i < limit; i++)
        printf("%lld%s", counts[i], i % 5 == 4 ? "\n" : " ");
    return 0;
}
