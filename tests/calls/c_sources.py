"""Small C files for tests of what is made of them."""

GEMM = """\
/* before */
#define ALPHA 2
void gemm(int ni, int nj, int nk, double alpha, double C[ni][nj], double A[ni][nk],
          double B[nk][nj])
{
    int i, j, k;
#pragma scop
    for (i = 0; i < ni; i++)
        for (j = 0; j < nj; j++) {
            C[i][j] = 0;
            for (k = 0; k < nk; k++)
                C[i][j] += alpha * A[i][k] * B[k][j];
        }
#pragma endscop
}
/* after */
"""

# A recurrence in both loops: nothing to do for the planner.
SERIAL = """\
void serial(int n, double a[n])
{
    int i;
#pragma scop
    for (i = 1; i < n; i++)
        a[i] = a[i - 1] / (1 + a[i]);
#pragma endscop
}
"""

SAXPY = """\
void saxpy(int n, float a, float x[n], float y[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        y[i] = a * x[i] + y[i];
#pragma endscop
}
"""

# Two regions of one function, a variable of the file, one of the function, and an inner block.
TWO = """\
double scale[4] = {0};
static int calls = 3;
void two(int n, double x[n], double y[n])
{
    double sum = 0.5, part[4];
    int i;
#pragma scop
    for (i = 0; i < 4; i++) {
        part[i] = x[i] * calls;
        scale[i] += part[i];
    }
#pragma endscop
    /* between the two: declarations only */
    double more = 2;
#pragma scop
    for (i = 0; i < n; i++)
        sum += x[i] * more;
    for (i = 0; i < n; i++)
        y[i] = sum + scale[i % 4];
#pragma endscop
    return;
}
"""
