/* Many chain molecules: energies of bonds (lengths) and of angles between bonds that follow each
   other, and the forces of the bonds. */
#ifndef EXTENT_chains
#define EXTENT_chains 50000
#define EXTENT_beads 80
#endif

#include <math.h>

void kernel_polymer_chains(int chains, int beads, float kb, float ka,
                           float pos[EXTENT_chains][EXTENT_beads][3],
                           float force[EXTENT_chains][EXTENT_beads][3],
                           float energy[EXTENT_chains])
{
#pragma scop
    for (int c = 0; c < chains; c++) {
        float e = 0.0f;
        for (int i = 0; i < beads; i++)
            for (int k = 0; k < 3; k++)
                force[c][i][k] = 0.0f;
        for (int i = 0; i < beads - 1; i++) {
            float d[3];
            float r2 = 0.01f;
            for (int k = 0; k < 3; k++) {
                d[k] = pos[c][i + 1][k] - pos[c][i][k];
                r2 += d[k] * d[k];
            }
            float r = sqrtf(r2);
            e += 0.5f * kb * (r - 1.0f) * (r - 1.0f);
            for (int k = 0; k < 3; k++) {
                force[c][i][k] += kb * (r - 1.0f) / r * d[k];
                force[c][i + 1][k] -= kb * (r - 1.0f) / r * d[k];
            }
        }
        for (int i = 1; i < beads - 1; i++) {
            float dot = 0.0f, aa = 0.01f, bb = 0.01f;
            for (int k = 0; k < 3; k++) {
                float u = pos[c][i - 1][k] - pos[c][i][k];
                float v = pos[c][i + 1][k] - pos[c][i][k];
                dot += u * v;
                aa += u * u;
                bb += v * v;
            }
            e += ka * (1.0f + dot / sqrtf(aa * bb));
        }
        energy[c] = e;
    }
#pragma endscop
}
