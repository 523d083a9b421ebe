/* Cascaded integrators and combs, five of each, for every sixteenth sample of many channels. */

#define RATE 16

void kernel_cic_decimator(int channels, int blocks, short in[channels][RATE * blocks],
                          unsigned out[channels][blocks])
{
#pragma scop
    for (int c = 0; c < channels; c++) {
        unsigned i1 = 0, i2 = 0, i3 = 0, i4 = 0, i5 = 0;
        unsigned z1 = 0, z2 = 0, z3 = 0, z4 = 0, z5 = 0;
        for (int k = 0; k < blocks; k++) {
            for (int r = 0; r < RATE; r++) {
                i1 += in[c][RATE * k + r];
                i2 += i1;
                i3 += i2;
                i4 += i3;
                i5 += i4;
            }
            unsigned y1 = i5 - z1;
            unsigned y2 = y1 - z2;
            unsigned y3 = y2 - z3;
            unsigned y4 = y3 - z4;
            out[c][k] = (y4 - z5) >> 8;
            z1 = i5;
            z2 = y1;
            z3 = y2;
            z4 = y3;
            z5 = y4;
        }
    }
#pragma endscop
}
