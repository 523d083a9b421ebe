/* The lasso by cycles over the coordinates; residuals are kept up to date. Variables are rows. */
#include <math.h>

void kernel_lasso_coordinates(int rounds, int rows, int vars, double penalty, double x[vars][rows],
                              double y[rows], double beta[vars], double resid[rows], double square[vars],
                              int used[rounds], double loss[rounds])
{
#pragma scop
    for (int i = 0; i < rows; i++)
        resid[i] = y[i];
    for (int j = 0; j < vars; j++) {
        beta[j] = 0.0;
        square[j] = 0.0;
        for (int i = 0; i < rows; i++)
            square[j] += x[j][i] * x[j][i];
        square[j] /= rows;
    }
    for (int t = 0; t < rounds; t++) {
        for (int j = 0; j < vars; j++) {
            double rho = 0.0;
            for (int i = 0; i < rows; i++)
                rho += x[j][i] * resid[i];
            rho = rho / rows + square[j] * beta[j];
            double now;
            if (rho > penalty)
                now = (rho - penalty) / square[j];
            else if (rho < -penalty)
                now = (rho + penalty) / square[j];
            else
                now = 0.0;
            double change = now - beta[j];
            if (change != 0.0)
                for (int i = 0; i < rows; i++)
                    resid[i] -= change * x[j][i];
            beta[j] = now;
        }
        double sum = 0.0, weight = 0.0;
        int count = 0;
        for (int i = 0; i < rows; i++)
            sum += resid[i] * resid[i];
        for (int j = 0; j < vars; j++) {
            weight += fabs(beta[j]);
            if (beta[j] != 0.0)
                count++;
        }
        used[t] = count;
        loss[t] = 0.5 * sum / rows + penalty * weight;
    }
#pragma endscop
}
