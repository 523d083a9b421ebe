/* The longest subsequence that rises, and the heaviest, of many series of integers. */

void kernel_rising_runs(int series, int n, int x[series][n], short length[series][n],
                        int weight[series][n], int longest[series], int heaviest[series])
{
#pragma scop
    for (int s = 0; s < series; s++) {
        int most = 0, sum = 0;
        for (int i = 0; i < n; i++) {
            length[s][i] = 1;
            weight[s][i] = x[s][i];
            for (int j = 0; j < i; j++) {
                if (x[s][j] < x[s][i]) {
                    if (length[s][j] + 1 > length[s][i])
                        length[s][i] = length[s][j] + 1;
                    if (weight[s][j] + x[s][i] > weight[s][i])
                        weight[s][i] = weight[s][j] + x[s][i];
                }
            }
            most = length[s][i] > most ? length[s][i] : most;
            sum = weight[s][i] > sum ? weight[s][i] : sum;
        }
        longest[s] = most;
        heaviest[s] = sum;
    }
#pragma endscop
}
