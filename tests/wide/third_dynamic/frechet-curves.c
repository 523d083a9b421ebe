/* The discrete distance of Frechet between one curve and several others. */
#include <math.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

void kernel_frechet_curves(int pairs, int n, int m, double px[n], double py[n], double qx[pairs][m],
                           double qy[pairs][m], double ca[n][m], double apart[pairs])
{
#pragma scop
    for (int k = 0; k < pairs; k++) {
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < m; j++) {
                double d = hypot(px[i] - qx[k][j], py[i] - qy[k][j]);
                if (i == 0 && j == 0)
                    ca[i][j] = d;
                else if (i == 0)
                    ca[i][j] = MAX(ca[i][j - 1], d);
                else if (j == 0)
                    ca[i][j] = MAX(ca[i - 1][j], d);
                else
                    ca[i][j] = MAX(MIN(MIN(ca[i - 1][j], ca[i][j - 1]), ca[i - 1][j - 1]), d);
            }
        }
        apart[k] = ca[n - 1][m - 1];
    }
#pragma endscop
}
