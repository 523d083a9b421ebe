/* Medians of three, first along rows and then along columns: salt and pepper go. */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MEDIAN(a, b, c) MAX(MIN(a, b), MIN(MAX(a, b), c))

void kernel_median_three(int h, int w, unsigned char in[restrict h][w],
                         unsigned char rows[restrict h][w], unsigned char out[restrict h][w])
{
    int i, j;

#pragma scop
    for (i = 0; i < h; i++) {
        rows[i][0] = in[i][0];
        for (j = 1; j < w - 1; j++)
            rows[i][j] = MEDIAN(in[i][j - 1], in[i][j], in[i][j + 1]);
        rows[i][w - 1] = in[i][w - 1];
    }
    for (j = 0; j < w; j++) {
        out[0][j] = rows[0][j];
        out[h - 1][j] = rows[h - 1][j];
    }
    for (i = 1; i < h - 1; i++)
        for (j = 0; j < w; j++)
            out[i][j] = MEDIAN(rows[i - 1][j], rows[i][j], rows[i + 1][j]);
#pragma endscop
}
