/* Longest palindromic subsequence of every stretch of a text, from its end backwards. */
#ifndef EXTENT_n
#define EXTENT_n 6500
#endif
#include "kernel.h"

void kernel_palindrome_subsequence(int n, char VECTOR(text, n), unsigned short MATRIX(longest, n, n))
{
    int i, j;

#pragma scop
    for (i = BOUND(n) - 1; i >= 0; i--) {
        for (j = 0; j < i; j++)
            longest[i][j] = 0;
        longest[i][i] = 1;
        for (j = i + 1; j < BOUND(n); j++)
            longest[i][j] = text[i] == text[j] ? longest[i + 1][j - 1] + 2
                                               : GREATER(longest[i + 1][j], longest[i][j - 1]);
    }
#pragma endscop
}
