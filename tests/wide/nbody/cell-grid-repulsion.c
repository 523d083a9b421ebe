/* Soft repulsion of discs sorted into square cells of fixed capacity: each disc meets those of its
   own cell and of the eight around. Empty places have weight zero. */
#define CAP 8

void kernel_cell_grid_repulsion(int rows, int cols, double reach2, double px[rows][cols][CAP],
                                double py[rows][cols][CAP], double weight[rows][cols][CAP],
                                double fx[rows][cols][CAP], double fy[rows][cols][CAP])
{
    int r, c, dr, dc, a, b;

#pragma scop
    for (r = 1; r < rows - 1; r++)
        for (c = 1; c < cols - 1; c++)
            for (a = 0; a < CAP; a++) {
                double sx = 0, sy = 0;
                for (dr = -1; dr <= 1; dr++)
                    for (dc = -1; dc <= 1; dc++)
                        for (b = 0; b < CAP; b++) {
                            double dx = px[r][c][a] - px[r + dr][c + dc][b] - dc;
                            double dy = py[r][c][a] - py[r + dr][c + dc][b] - dr;
                            double left = reach2 - (dx * dx + dy * dy);
                            double push = left > 0 ? left * weight[r + dr][c + dc][b] : 0;
                            sx += push * dx;
                            sy += push * dy;
                        }
                fx[r][c][a] = weight[r][c][a] * sx;
                fy[r][c][a] = weight[r][c][a] * sy;
            }
#pragma endscop
}
