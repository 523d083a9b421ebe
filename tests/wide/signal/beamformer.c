/* Power that an array of sensors receives from each direction, snapshots taken together. */
#ifndef EXTENT_angles
#define EXTENT_angles 90
#define EXTENT_sensors 24
#define EXTENT_shots 12000
#endif
#include "kernel.h"

void kernel_beamformer(int angles, int sensors, int shots, DATA MATRIX(wr, angles, sensors),
                       DATA MATRIX(wi, angles, sensors), DATA MATRIX(xr, sensors, shots),
                       DATA MATRIX(xi, sensors, shots), DATA VECTOR(power, angles))
{
    int a, s, t;
    DATA re, im;

#pragma scop
    for (a = 0; a < BOUND(angles); a++) {
        power[a] = 0;
        for (t = 0; t < BOUND(shots); t++) {
            re = 0;
            im = 0;
            for (s = 0; s < BOUND(sensors); s++) {
                re += wr[a][s] * xr[s][t] + wi[a][s] * xi[s][t];
                im += wr[a][s] * xi[s][t] - wi[a][s] * xr[s][t];
            }
            power[a] += re * re + im * im;
        }
    }
#pragma endscop
}
