/* Parities of a table of words: across each row, down each column, along each diagonal. */
void kernel_parity_rows(int n, unsigned w[n][n], unsigned across[n], unsigned down[n],
                        unsigned diagonal[n])
{
    int i, j;

#pragma scop
    for (i = 0; i < n; i++) {
        across[i] = 0;
        down[i] = 0;
        diagonal[i] = 0;
    }
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++) {
            across[i] ^= w[i][j];
            down[j] ^= w[i][j];
        }
    for (i = 0; i < n; i++)
        for (j = i; j < n; j++)
            diagonal[j - i] ^= w[i][j] & ~(w[j][i] >> 1);
#pragma endscop
}
