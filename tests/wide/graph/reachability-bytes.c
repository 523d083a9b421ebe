/* Transitive closure in place, one byte for each pair. */
void kernel_reachability_bytes(int n, unsigned char reach[n][n])
{
#pragma scop
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                reach[i][j] |= reach[i][k] & reach[k][j];
#pragma endscop
}
