/* The median of three neighbours along rows, taken a number of times in turns. */
void median(int t, int n, int m, float a[n][m], float b[n][m])
{
#pragma scop
    for (int s = 0; s < t; s++) {
        for (int i = 0; i < n; i++)
            for (int j = 1; j < m - 1; j++)
                b[i][j] = a[i][j - 1] < a[i][j]
                              ? (a[i][j] < a[i][j + 1]
                                     ? a[i][j]
                                     : (a[i][j - 1] < a[i][j + 1] ? a[i][j + 1] : a[i][j - 1]))
                              : (a[i][j - 1] < a[i][j + 1]
                                     ? a[i][j - 1]
                                     : (a[i][j] < a[i][j + 1] ? a[i][j + 1] : a[i][j]));
        for (int i = 0; i < n; i++)
            for (int j = 1; j < m - 1; j++)
                a[i][j] = b[i][j];
    }
#pragma endscop
}
