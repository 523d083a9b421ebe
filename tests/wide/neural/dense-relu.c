/* A batch through a dense layer: product, bias, and nothing below zero. */
#define BATCH EXTENT_batch
#define IN EXTENT_nin
#define OUT EXTENT_nout
#ifndef EXTENT_batch
#define EXTENT_batch 256
#define EXTENT_nin 512
#define EXTENT_nout 512
#endif

void kernel_dense_relu(float x[BATCH][IN], float w[OUT][IN], float bias[OUT], float y[BATCH][OUT])
{
    int b, o, i;
#pragma scop
    for (b = 0; b < BATCH; b++)
        for (o = 0; o < OUT; o++) {
            y[b][o] = bias[o];
            for (i = 0; i < IN; i++)
                y[b][o] += x[b][i] * w[o][i];
            y[b][o] = y[b][o] > 0.0f ? y[b][o] : 0.0f;
        }
#pragma endscop
}
