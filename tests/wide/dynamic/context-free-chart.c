/* CYK for a grammar in normal form given as a dense cube of bits: which symbols derive which
   stretch of the text. */
#ifndef EXTENT_n
#define EXTENT_n 64
#define EXTENT_symbols 16
#endif

void kernel_context_free_chart(int n, int symbols,
                               unsigned char rule[EXTENT_symbols][EXTENT_symbols][EXTENT_symbols],
                               unsigned char leaf[EXTENT_n][EXTENT_symbols],
                               unsigned char chart[EXTENT_n][EXTENT_n][EXTENT_symbols])
{
    int i, j, k, a, b, c;

#pragma scop
    for (i = 0; i < n; i++)
        for (a = 0; a < symbols; a++)
            chart[i][i][a] = leaf[i][a];
    for (i = n - 2; i >= 0; i--)
        for (j = i + 1; j < n; j++) {
            for (a = 0; a < symbols; a++)
                chart[i][j][a] = 0;
            for (k = i; k < j; k++)
                for (b = 0; b < symbols; b++)
                    for (c = 0; c < symbols; c++)
                        for (a = 0; a < symbols; a++)
                            chart[i][j][a] |= rule[b][c][a] & chart[i][k][b] & chart[k + 1][j][c];
        }
#pragma endscop
}
