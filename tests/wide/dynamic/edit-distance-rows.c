/* Edit distances of one text to many, each with two rows that take turns. */
#ifndef EXTENT_texts
#define EXTENT_texts 60
#define EXTENT_n 1000
#define EXTENT_m 1100
#endif

void kernel_edit_distance_rows(int texts, int n, int m, char pattern[EXTENT_n],
                               char text[EXTENT_texts][EXTENT_m], int distance[EXTENT_texts])
{
    int row[2][EXTENT_m + 1];

#pragma scop
    for (int t = 0; t < texts; t++) {
        for (int j = 0; j <= m; j++)
            row[0][j] = j;
        for (int i = 1; i <= n; i++) {
            row[i % 2][0] = i;
            for (int j = 1; j <= m; j++) {
                int swap = row[(i + 1) % 2][j - 1] + (pattern[i - 1] != text[t][j - 1] ? 1 : 0);
                int drop = row[(i + 1) % 2][j] + 1;
                int add = row[i % 2][j - 1] + 1;
                int least = swap < drop ? swap : drop;
                row[i % 2][j] = least < add ? least : add;
            }
        }
        distance[t] = row[n % 2][m];
    }
#pragma endscop
}
