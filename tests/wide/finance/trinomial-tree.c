/* A European claim on a trinomial tree of w end nodes; each level loses a node on either side. */
#ifndef EXTENT_w
#define EXTENT_w 17001
#endif
#include "kernel.h"

void kernel_trinomial_tree(int w, DATA down, DATA middle, DATA up, DATA VECTOR(value, w),
                           DATA VECTOR(next, w))
{
    int t, j;

#pragma scop
    for (t = 1; 2 * t < BOUND(w); t++) {
        for (j = t; j < BOUND(w) - t; j++)
            next[j] = down * value[j - 1] + middle * value[j] + up * value[j + 1];
        for (j = t; j < BOUND(w) - t; j++)
            value[j] = next[j];
    }
#pragma endscop
}
