/* Light that enters a volume along x: what is left of it, what each cell takes, what comes out. */
void kernel_ray_attenuation(int nz, int ny, int nx, float dx, const float mu[nz][ny][nx],
                            float taken[nz][ny][nx], float image[nz][ny])
{
    int i, j, k;

#pragma scop
    for (k = 0; k < nz; k++)
        for (j = 0; j < ny; j++) {
            float light = 1.0f;
            for (i = 0; i < nx; i++) {
                float pass = 1.0f / (1.0f + mu[k][j][i] * dx);
                taken[k][j][i] = light * (1.0f - pass);
                light *= pass;
            }
            image[k][j] = light;
        }
#pragma endscop
}
