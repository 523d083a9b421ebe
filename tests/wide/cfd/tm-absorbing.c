/* A wave in two dimensions with layers that absorb: the field is split, coefficients by row and
   column. */
void kernel_tm_absorbing(int steps, int nx, int ny, double ezx[restrict nx][ny],
                         double ezy[restrict nx][ny], double hx[restrict nx][ny],
                         double hy[restrict nx][ny], double cax[restrict nx], double cbx[restrict nx],
                         double cay[restrict ny], double cby[restrict ny])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < nx; i++)
            for (int j = 1; j < ny; j++) {
                ezx[i][j] = cax[i] * ezx[i][j] + cbx[i] * (hy[i][j] - hy[i - 1][j]);
                ezy[i][j] = cay[j] * ezy[i][j] - cby[j] * (hx[i][j] - hx[i][j - 1]);
            }
        for (int i = 0; i < nx - 1; i++)
            for (int j = 0; j < ny - 1; j++) {
                double here = ezx[i][j] + ezy[i][j];
                hx[i][j] = cay[j] * hx[i][j] - cby[j] * (ezx[i][j + 1] + ezy[i][j + 1] - here);
                hy[i][j] = cax[i] * hy[i][j] + cbx[i] * (ezx[i + 1][j] + ezy[i + 1][j] - here);
            }
    }
#pragma endscop
}
