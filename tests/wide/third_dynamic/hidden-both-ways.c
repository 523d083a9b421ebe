/* A hidden Markov chain read forwards and backwards: posteriors, expected moves, likelihood. */
#include <math.h>

void kernel_hidden_both_ways(int length, int states, double start[states], double move[states][states],
                             double emit[length][states], double fwd[length][states],
                             double bwd[length][states], double scale[length],
                             double post[length][states], double counts[states][states],
                             double loglik[1])
{
    int t, i, j;
    double sum;

#pragma scop
    /* forwards */
    sum = 0.0;
    for (i = 0; i < states; i++) {
        fwd[0][i] = start[i] * emit[0][i];
        sum += fwd[0][i];
    }
    scale[0] = 1.0 / sum;
    for (i = 0; i < states; i++)
        fwd[0][i] *= scale[0];
    for (t = 1; t < length; t++) {
        sum = 0.0;
        for (j = 0; j < states; j++) {
            fwd[t][j] = 0.0;
            for (i = 0; i < states; i++)
                fwd[t][j] += fwd[t - 1][i] * move[i][j];
            fwd[t][j] *= emit[t][j];
            sum += fwd[t][j];
        }
        scale[t] = 1.0 / sum;
        for (j = 0; j < states; j++)
            fwd[t][j] *= scale[t];
    }

    /* backwards */
    for (i = 0; i < states; i++)
        bwd[length - 1][i] = scale[length - 1];
    for (t = length - 2; t >= 0; t--)
        for (i = 0; i < states; i++) {
            bwd[t][i] = 0.0;
            for (j = 0; j < states; j++)
                bwd[t][i] += move[i][j] * emit[t + 1][j] * bwd[t + 1][j];
            bwd[t][i] *= scale[t];
        }

    /* what is expected of the states and of the moves */
    for (t = 0; t < length; t++) {
        sum = 0.0;
        for (i = 0; i < states; i++)
            sum += fwd[t][i] * bwd[t][i];
        for (i = 0; i < states; i++)
            post[t][i] = fwd[t][i] * bwd[t][i] / sum;
    }
    for (i = 0; i < states; i++)
        for (j = 0; j < states; j++) {
            counts[i][j] = 0.0;
            for (t = 0; t < length - 1; t++)
                counts[i][j] += fwd[t][i] * move[i][j] * emit[t + 1][j] * bwd[t + 1][j];
        }

    loglik[0] = 0.0;
    for (t = 0; t < length; t++)
        loglik[0] -= log(scale[t]);
#pragma endscop
}
