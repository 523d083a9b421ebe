/* Records that agree with an earlier one in all but a few fields; the nearest earlier record. */
#define FIELDS 24
#define FEW 10

void kernel_near_duplicates(int n, char record[n][FIELDS], int twin[n], int apart[n], int group[n])
{
#pragma scop
    for (int j = 0; j < n; j++) {
        twin[j] = -1;
        apart[j] = FIELDS + 1;
        group[j] = 0;
    }
    for (int j = 1; j < n; j++)
        for (int i = 0; i < j; i++) {
            int differ = 0;
            for (int f = 0; f < FIELDS; f++)
                if (record[i][f] != record[j][f])
                    differ++;
            if (differ < apart[j]) {
                apart[j] = differ;
                twin[j] = i;
            }
            if (differ <= FEW) {
                group[i]++;
                group[j]++;
            }
        }
#pragma endscop
}
