/* Sums of squares of a two-way table with replicates: rows, columns, interaction, error. */
#ifndef EXTENT_rows
#define EXTENT_rows 800
#define EXTENT_cols 800
#define EXTENT_reps 60
#endif

void kernel_two_way_anova(int rows, int cols, int reps, double nr, double nc, double nk,
                          double y[EXTENT_rows][EXTENT_cols][EXTENT_reps], double row[EXTENT_rows],
                          double col[EXTENT_cols], double cell[EXTENT_rows][EXTENT_cols],
                          double ss[4])
{
    int i, j, k;
    double grand;

#pragma scop
    grand = 0;
    for (i = 0; i < rows; i++)
        row[i] = 0;
    for (j = 0; j < cols; j++)
        col[j] = 0;
    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++) {
            cell[i][j] = 0;
            for (k = 0; k < reps; k++)
                cell[i][j] += y[i][j][k];
            row[i] += cell[i][j];
            col[j] += cell[i][j];
            grand += cell[i][j];
            cell[i][j] /= nk;
        }
    grand /= nr * nc * nk;
    for (i = 0; i < 4; i++)
        ss[i] = 0;
    for (i = 0; i < rows; i++) {
        row[i] /= nc * nk;
        ss[0] += nc * nk * (row[i] - grand) * (row[i] - grand);
    }
    for (j = 0; j < cols; j++) {
        col[j] /= nr * nk;
        ss[1] += nr * nk * (col[j] - grand) * (col[j] - grand);
    }
    for (i = 0; i < rows; i++)
        for (j = 0; j < cols; j++) {
            double inter = cell[i][j] - row[i] - col[j] + grand;
            ss[2] += nk * inter * inter;
            for (k = 0; k < reps; k++)
                ss[3] += (y[i][j][k] - cell[i][j]) * (y[i][j][k] - cell[i][j]);
        }
#pragma endscop
}
