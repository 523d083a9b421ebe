/* Branches on data and on places, as people write them. */
void neighbours(int n, double *u, double *v)
{
    int i, left, right;
#pragma scop
    for (i = 0; i < n; i++) {
        if (i == 0)
            left = n - 1;
        else
            left = i - 1;
        right = i + 1;
        if (right == n)
            right = 0;
        v[i] = u[left] + u[right];
    }
#pragma endscop
}

void extremes(int n, double a[n], double out[3])
{
    double low, high, sum;
    int where;
#pragma scop
    low = a[0];
    high = a[0];
    sum = 0.0;
    where = 0;
    for (int i = 1; i < n; i++) {
        if (a[i] < low) {
            low = a[i];
            where = i;
        } else if (a[i] > high)
            high = a[i];
        if (a[i] > 1.0)
            sum += a[i];
    }
    out[0] = low + high;
    out[1] = where;
    out[2] = sum;
#pragma endscop
}

void threshold(int n, int m, float a[n][m], float b[n][m], int c[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            float t;
            if (a[i][j] > 1.0f)
                t = a[i][j] * 0.5f;
            else
                t = 0.0f;
            if (j > 0 && a[i][j - 1] > 1.5f)
                t = t + a[i][j - 1];
            b[i][j] = t;
            if (t > 1.0f) {
                c[i][j] = 1;
                b[i][j] -= 1.0f;
            }
        }
#pragma endscop
}
