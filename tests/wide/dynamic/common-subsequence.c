/* Length of the longest common subsequence of two texts. */
void kernel_common_subsequence(int n, int m, char a[n], char b[m], int L[n][m])
{
    int i, j;

#pragma scop
    for (i = 0; i < n; i++)
        L[i][0] = 0;
    for (j = 0; j < m; j++)
        L[0][j] = 0;
    for (i = 1; i < n; i++) {
        for (j = 1; j < m; j++) {
            if (a[i] == b[j])
                L[i][j] = L[i - 1][j - 1] + 1;
            else
                L[i][j] = L[i - 1][j] > L[i][j - 1] ? L[i - 1][j] : L[i][j - 1];
        }
    }
#pragma endscop
}
