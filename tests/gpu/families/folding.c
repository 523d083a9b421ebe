/* Pairs of a folded chain, from short spans to long ones, after Nussinov. */
void folding(int n, int letter[n], int pairs[n][n])
{
#pragma scop
    for (int l = 1; l < n; l++)
        for (int i = 0; i < n - l; i++) {
            pairs[i][i + l] = pairs[i][i + l - 1];
            if (l > 1)
                pairs[i][i + l] =
                    pairs[i][i + l] > pairs[i + 1][i + l - 1] + (letter[i] + letter[i + l] == 3)
                        ? pairs[i][i + l]
                        : pairs[i + 1][i + l - 1] + (letter[i] + letter[i + l] == 3);
            for (int k = i; k < i + l; k++)
                pairs[i][i + l] = pairs[i][i + l] > pairs[i][k] + pairs[k + 1][i + l]
                                      ? pairs[i][i + l]
                                      : pairs[i][k] + pairs[k + 1][i + l];
        }
#pragma endscop
}
