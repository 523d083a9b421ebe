/* The loss of a classifier and its gradient; targets are rows of probabilities. */
#include <math.h>

void kernel_cross_entropy(int n, int classes, double logits[n][classes], double target[n][classes],
                          double loss[n], double grad[n][classes])
{
    int i, c;
    double top, total;
#pragma scop
    for (i = 0; i < n; i++) {
        top = logits[i][0];
        for (c = 1; c < classes; c++)
            top = fmax(top, logits[i][c]);
        total = 0.0;
        for (c = 0; c < classes; c++)
            total += exp(logits[i][c] - top);
        loss[i] = 0.0;
        for (c = 0; c < classes; c++) {
            loss[i] -= target[i][c] * (logits[i][c] - top - log(total));
            grad[i][c] = exp(logits[i][c] - top) / total - target[i][c];
        }
    }
#pragma endscop
}
