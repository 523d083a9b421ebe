/* An acoustic step with differences of eighth order along three axes, as in seismic imaging. */
void kernel_radius_four(int nz, int ny, int nx, float c[restrict 5], float u[restrict nz + 8][ny + 8][nx + 8],
                        float vel[restrict nz][ny][nx], float next[restrict nz][ny][nx])
{
#pragma scop
    for (int z = 0; z < nz; z++)
        for (int y = 0; y < ny; y++)
            for (int x = 0; x < nx; x++) {
                float lap = 3.0f * c[0] * u[z + 4][y + 4][x + 4];
                for (int r = 1; r <= 4; r++)
                    lap += c[r] * (u[z + 4 + r][y + 4][x + 4] + u[z + 4 - r][y + 4][x + 4]
                                   + u[z + 4][y + 4 + r][x + 4] + u[z + 4][y + 4 - r][x + 4]
                                   + u[z + 4][y + 4][x + 4 + r] + u[z + 4][y + 4][x + 4 - r]);
                next[z][y][x] = 2.0f * u[z + 4][y + 4][x + 4] - next[z][y][x] + vel[z][y][x] * lap;
            }
#pragma endscop
}
