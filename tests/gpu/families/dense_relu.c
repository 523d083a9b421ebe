/* A dense layer of a network with a bias, then ReLU. */
void dense_relu(int b, int n, int m, float x[b][n], float w[m][n], float bias[m], float y[b][m])
{
#pragma scop
    for (int s = 0; s < b; s++)
        for (int o = 0; o < m; o++) {
            y[s][o] = bias[o];
            for (int k = 0; k < n; k++)
                y[s][o] += x[s][k] * w[o][k];
            y[s][o] = y[s][o] > 0.0f ? y[s][o] : 0.0f;
        }
#pragma endscop
}
