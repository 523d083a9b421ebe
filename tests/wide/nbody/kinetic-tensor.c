/* Drift taken out of the velocities of many systems, their kinetic tensors, and a thermostat that
   scales every system to one temperature. */
#include <math.h>

void kernel_kinetic_tensor(int systems, int n, double count, double target,
                           double vel[restrict systems][n][3], double mass[restrict n],
                           double tensor[restrict systems][3][3])
{
#pragma scop
    for (int s = 0; s < systems; s++) {
        double drift[3] = {0.0, 0.0, 0.0};
        for (int i = 0; i < n; i++) {
            drift[0] += vel[s][i][0];
            drift[1] += vel[s][i][1];
            drift[2] += vel[s][i][2];
        }
        for (int i = 0; i < n; i++)
            for (int a = 0; a < 3; a++)
                vel[s][i][a] -= drift[a] / count;

        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
                tensor[s][a][b] = 0.0;
                for (int i = 0; i < n; i++)
                    tensor[s][a][b] += mass[i] * vel[s][i][a] * vel[s][i][b];
            }

        double factor = sqrt(target / (tensor[s][0][0] + tensor[s][1][1] + tensor[s][2][2] + 1e-9));
        for (int i = 0; i < n; i++)
            for (int a = 0; a < 3; a++)
                vel[s][i][a] *= factor;
    }
#pragma endscop
}
