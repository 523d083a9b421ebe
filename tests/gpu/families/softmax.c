/* Softmax of rows: largest element, exponentials, their sum, quotients. */
#include <math.h>
void softmax(int b, int n, double x[b][n], double y[b][n])
{
    double largest, total;
#pragma scop
    for (int s = 0; s < b; s++) {
        largest = -1.0e300;
        for (int k = 0; k < n; k++)
            largest = x[s][k] > largest ? x[s][k] : largest;
        total = 0.0;
        for (int k = 0; k < n; k++) {
            y[s][k] = exp(x[s][k] - largest);
            total += y[s][k];
        }
        for (int k = 0; k < n; k++)
            y[s][k] = y[s][k] / total;
    }
#pragma endscop
}
