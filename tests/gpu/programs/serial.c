/* A recurrence, which one thread runs, inside a loop of the file; part of an array is written. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    int n = 50;
    double *a = malloc(n * sizeof *a);
    float (*table)[4] = malloc(n * sizeof *table);
    for (int i = 0; i < n; i++) {
        a[i] = i % 5 + 1;
        for (int j = 0; j < 4; j++)
            table[i][j] = i - j;
    }
    for (int round = 0; round < 3; round++) {
#pragma scop
        for (int i = 3; i < n; i++)
            a[i] = a[i - 1] / (1 + a[i]) + a[i - 3];
#pragma endscop
    }
#pragma scop
    for (int i = 10; i < n - 10; i++)
        for (int j = 1; j < 3; j++)
            table[i][j] = table[i][j - 1] * 0.5f + a[i];
#pragma endscop
    for (int i = 0; i < n; i += 7)
        printf("%.10f %.4f %.4f %.4f\n", a[i], table[i][0], table[i][1], table[i][2]);
    free(a);
    free(table);
    return 0;
}
