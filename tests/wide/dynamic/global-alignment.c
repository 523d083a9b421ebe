/* Global alignment after Needleman and Wunsch: matches, mismatches and linear gaps. */
#ifndef EXTENT_n
#define EXTENT_n 4400
#define EXTENT_m 5000
#endif
#ifndef DATA
#define DATA int
#endif
#include "kernel.h"

void kernel_global_alignment(int n, int m, DATA same, DATA differs, DATA gap, char VECTOR(s, n),
                             char VECTOR(t, m), DATA MATRIX(score, n, m))
{
    int i, j;

#pragma scop
    for (i = 0; i < BOUND(n); i++)
        score[i][0] = i * gap;
    for (j = 1; j < BOUND(m); j++)
        score[0][j] = j * gap;
    for (i = 1; i < BOUND(n); i++)
        for (j = 1; j < BOUND(m); j++)
            score[i][j] = GREATER(score[i - 1][j - 1] + (s[i] == t[j] ? same : differs),
                                  GREATER(score[i - 1][j] + gap, score[i][j - 1] + gap));
#pragma endscop
}
