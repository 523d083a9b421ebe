/* The lowest pass between any two places: the least of the greatest heights along a path. */
#include <math.h>

#ifndef N
#ifdef EXTENT_n
#define N EXTENT_n
#else
#define N 512
#endif
#endif

void kernel_minimax_paths(double height[N][N])
{
#pragma scop
    for (int k = 0; k < N; ++k)
        for (int i = 0; i < N; ++i)
            for (int j = 0; j < N; ++j)
                height[i][j] = fmin(height[i][j], fmax(height[i][k], height[k][j]));
#pragma endscop
}
