/* Scalars that carry values from one statement to the next. */
static int calls;

double last_value(int n, double *a, double *b)
{
    double t, u, last = -1.0;
    calls++;
    {
#pragma scop
        for (int i = 0; i < n; i++) {
            t = a[i] * 2;
            u = t + 1;
            if (i % 2 == 0)
                u = u * t;
            b[i] = u + t * t;
            last = t;
        }
#pragma endscop
    }
    return last;
}

void norms(int n, int m, double a[n][m], double *out)
{
    double s, x;
#pragma scop
    for (int i = 0; i < n; i++) {
        s = 0;
        for (int j = 0; j < m; j++) {
            x = a[i][j];
            s += x * x;
        }
        out[i] = s;
    }
#pragma endscop
}

static void two(int n, float *restrict a, float *restrict b, float scale)
{
    float t;
#pragma scop
    for (int i = 0; i < n; i++) {
        t = scale * a[i];
        b[i] = t + t * t;
    }
#pragma endscop
#pragma scop
    for (int i = 0; i < n; i++)
        a[i] = b[i] * b[i];
#pragma endscop
}

void call_two(int n, float *a, float *b, float scale) { two(n, a, b, scale); }
