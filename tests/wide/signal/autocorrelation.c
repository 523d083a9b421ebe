/* Unnormalised autocorrelation up to a largest lag, then a window on the lags. */
void kernel_autocorrelation(int n, int lags, double x[n], double window[lags], double r[lags])
{
    int l, i;

#pragma scop
    for (l = 0; l < lags; l++) {
        double s = 0;
        for (i = 0; i < n - l; i++)
            s += x[i] * x[i + l];
        r[l] = s;
    }
    for (l = 0; l < lags; l++)
        r[l] *= window[l];
#pragma endscop
}
