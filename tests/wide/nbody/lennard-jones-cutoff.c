/* Lennard-Jones forces and energy per atom; what lies beyond the cutoff gives nothing. */
void kernel_lennard_jones_cutoff(int n, float cutoff2, float sigma6, const float x[restrict n],
                                 const float y[restrict n], const float z[restrict n],
                                 float fx[restrict n], float fy[restrict n], float fz[restrict n],
                                 float energy[restrict n])
{
    int i, j;

#pragma scop
    for (i = 0; i < n; ++i) {
        float sx = 0.f, sy = 0.f, sz = 0.f, e = 0.f;
        for (j = 0; j < n; ++j) {
            float dx = x[i] - x[j], dy = y[i] - y[j], dz = z[i] - z[j];
            float r2 = dx * dx + dy * dy + dz * dz;
            /* an atom does not meet itself */
            float inside = r2 < cutoff2 && r2 > 1e-6f ? 1.f : 0.f;
            float ir2 = 1.f / (r2 > 1e-6f ? r2 : 1.f);
            float ir6 = ir2 * ir2 * ir2 * sigma6;
            float f = inside * 24.f * ir2 * ir6 * (2.f * ir6 - 1.f);
            sx += f * dx;
            sy += f * dy;
            sz += f * dz;
            e += inside * 2.f * ir6 * (ir6 - 1.f);
        }
        fx[i] = sx;
        fy[i] = sy;
        fz[i] = sz;
        energy[i] = e;
    }
#pragma endscop
}
