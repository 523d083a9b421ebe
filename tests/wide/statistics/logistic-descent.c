/* Logistic regression by steps along the gradient, with weight decay. */
#include <math.h>

void kernel_logistic_descent(int epochs, int n, int d, double rate, double decay, double X[n][d],
                             double y[n], double w[d], double grad[d])
{
#pragma scop
    for (int e = 0; e < epochs; e++) {
        for (int j = 0; j < d; j++)
            grad[j] = decay * w[j];
        for (int i = 0; i < n; i++) {
            double z = 0.0;
            for (int j = 0; j < d; j++)
                z += X[i][j] * w[j];
            double err = 1.0 / (1.0 + exp(-z)) - y[i];
            for (int j = 0; j < d; j++)
                grad[j] += err * X[i][j];
        }
        for (int j = 0; j < d; j++)
            w[j] -= rate * grad[j];
    }
#pragma endscop
}
