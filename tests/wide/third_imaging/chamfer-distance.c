/* The distance of every pixel from the nearest mark, in thirds of a pixel: one pass down and one up. */

#define FAR 60000

void kernel_chamfer_distance(int rows, int cols, unsigned char mark[rows][cols],
                             unsigned short dist[rows][cols], int farthest[1])
{
    int y, x, d;

#pragma scop
    for (y = 0; y < rows; y++)
        for (x = 0; x < cols; x++) {
            d = mark[y][x] ? 0 : FAR;
            if (x > 0 && dist[y][x - 1] + 3 < d)
                d = dist[y][x - 1] + 3;
            if (y > 0) {
                if (x > 0 && dist[y - 1][x - 1] + 4 < d)
                    d = dist[y - 1][x - 1] + 4;
                if (dist[y - 1][x] + 3 < d)
                    d = dist[y - 1][x] + 3;
                if (x < cols - 1 && dist[y - 1][x + 1] + 4 < d)
                    d = dist[y - 1][x + 1] + 4;
            }
            dist[y][x] = d;
        }
    for (y = rows - 1; y >= 0; y--)
        for (x = cols - 1; x >= 0; x--) {
            d = dist[y][x];
            if (x < cols - 1 && dist[y][x + 1] + 3 < d)
                d = dist[y][x + 1] + 3;
            if (y < rows - 1) {
                if (x < cols - 1 && dist[y + 1][x + 1] + 4 < d)
                    d = dist[y + 1][x + 1] + 4;
                if (dist[y + 1][x] + 3 < d)
                    d = dist[y + 1][x] + 3;
                if (x > 0 && dist[y + 1][x - 1] + 4 < d)
                    d = dist[y + 1][x - 1] + 4;
            }
            dist[y][x] = d;
        }
    farthest[0] = 0;
    for (y = 0; y < rows; y++)
        for (x = 0; x < cols; x++)
            if (dist[y][x] > farthest[0])
                farthest[0] = dist[y][x];
#pragma endscop
}
