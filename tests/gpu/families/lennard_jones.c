/* Forces of Lennard-Jones along a line, without that of a particle on itself. */
void lennard_jones(int n, float x[n], float force[n])
{
    float r2, r6;
#pragma scop
    for (int i = 0; i < n; i++) {
        force[i] = 0.0f;
        for (int j = 0; j < n; j++)
            if (i != j) {
                r2 = 1.0f / ((x[i] - x[j]) * (x[i] - x[j]) + 0.25f);
                r6 = r2 * r2 * r2;
                force[i] += 24.0f * (x[i] - x[j]) * r2 * r6 * (2.0f * r6 - 1.0f);
            }
    }
#pragma endscop
}
