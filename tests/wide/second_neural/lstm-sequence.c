/* A layer of long short-term memory over a sequence, for a batch. */
#include <math.h>

#define SIGMOID(x) (1.0f / (1.0f + expf(-(x))))

void kernel_lstm_sequence(int steps, int batch, int nin, int hid, float x[steps][batch][nin],
                          float wx[4][hid][nin], float wh[4][hid][hid], float bias[4][hid],
                          float gate[4][batch][hid], float c[batch][hid], float h[steps + 1][batch][hid])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int g = 0; g < 4; g++)
            for (int b = 0; b < batch; b++)
                for (int o = 0; o < hid; o++) {
                    float sum = bias[g][o];
                    for (int k = 0; k < nin; k++)
                        sum += wx[g][o][k] * x[t][b][k];
                    for (int k = 0; k < hid; k++)
                        sum += wh[g][o][k] * h[t][b][k];
                    gate[g][b][o] = sum;
                }
        for (int b = 0; b < batch; b++)
            for (int o = 0; o < hid; o++) {
                float i = SIGMOID(gate[0][b][o]);
                float f = SIGMOID(gate[1][b][o] + 1.0f);
                float z = tanhf(gate[2][b][o]);
                float y = SIGMOID(gate[3][b][o]);
                c[b][o] = f * c[b][o] + i * z;
                h[t + 1][b][o] = y * tanhf(c[b][o]);
            }
    }
#pragma endscop
}
