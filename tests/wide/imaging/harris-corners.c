/* Harris corner response: gradients, their products summed over 3x3 windows, det - k trace^2. */
#ifndef EXTENT_rows
#define EXTENT_rows 3000
#define EXTENT_cols 4000
#endif

#define ROWS EXTENT_rows
#define COLS EXTENT_cols

void kernel_harris_corners(int rows, int cols, float k, float img[ROWS][COLS],
                           float Ix[ROWS][COLS], float Iy[ROWS][COLS], float Sxx[ROWS][COLS],
                           float Sxy[ROWS][COLS], float Syy[ROWS][COLS],
                           float response[ROWS][COLS])
{
    int i, j;

#pragma scop
    for (i = 1; i < ROWS - 1; i++) {
        for (j = 1; j < COLS - 1; j++) {
            Ix[i][j] = (img[i - 1][j + 1] - img[i - 1][j - 1]
                        + 2.0f * (img[i][j + 1] - img[i][j - 1])
                        + img[i + 1][j + 1] - img[i + 1][j - 1]) / 12.0f;
            Iy[i][j] = (img[i + 1][j - 1] - img[i - 1][j - 1]
                        + 2.0f * (img[i + 1][j] - img[i - 1][j])
                        + img[i + 1][j + 1] - img[i - 1][j + 1]) / 12.0f;
        }
    }
    for (i = 2; i < ROWS - 2; i++) {
        for (j = 2; j < COLS - 2; j++) {
            float xx = 0.0f, xy = 0.0f, yy = 0.0f;
            for (int di = -1; di <= 1; di++) {
                for (int dj = -1; dj <= 1; dj++) {
                    float gx = Ix[i + di][j + dj], gy = Iy[i + di][j + dj];
                    xx += gx * gx;
                    xy += gx * gy;
                    yy += gy * gy;
                }
            }
            Sxx[i][j] = xx;
            Sxy[i][j] = xy;
            Syy[i][j] = yy;
        }
    }
    for (i = 2; i < ROWS - 2; i++) {
        for (j = 2; j < COLS - 2; j++) {
            float det = Sxx[i][j] * Syy[i][j] - Sxy[i][j] * Sxy[i][j];
            float trace = Sxx[i][j] + Syy[i][j];
            response[i][j] = det - k * trace * trace;
        }
    }
#pragma endscop
}
