/* Several variables that count, in the head of a loop or beside it. */
void mirror(int n, double *a, double *b)
{
    int i, j;
#pragma scop
    for (i = 0, j = n - 1; i < n; i++, j--)
        b[i] = a[j];
#pragma endscop
}

void interleave(int n, float *a, float *b, float c[2 * n])
{
    int k = 0;
#pragma scop
    k = 0;
    for (int i = 0, z = 1; i < n; ++i, z += 2) {
        c[k] = a[i];
        k++;
        c[z] = b[i] + c[k - 1];
        k = k + 1;
    }
#pragma endscop
}

void pairs(int n, double *a, double b[n][n])
{
    int low, high = 0, count = 0;
#pragma scop
    high = n;
    count = 3;
    for (low = 0; low < high; low += 2) {
        b[low][n - 1] = a[low] + count;
        count += 5;
    }
    b[0][0] = count + low;
    for (int i = n - 1, m = 0; i >= 1; i--, m++)
        for (int j = 0, t = m; j < 1; j++, t++)
            b[i][j] += a[t];
#pragma endscop
}
