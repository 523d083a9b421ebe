/* One histogram per row: every bin is compared with every entry. */
#ifndef EXTENT_rows
#define EXTENT_rows 600
#endif
#ifndef EXTENT_n
#define EXTENT_n 8000
#endif
#define BINS 32

void kernel_histogram_rows(int rows, int n, unsigned char x[EXTENT_rows][EXTENT_n],
                           int hist[EXTENT_rows][BINS])
{
    int r, b, i;

#pragma scop
    for (r = 0; r < rows; r++)
        for (b = 0; b < BINS; b++) {
            hist[r][b] = 0;
            for (i = 0; i < n; i++)
                hist[r][b] += x[r][i] / 8 == b;
        }
#pragma endscop
}
