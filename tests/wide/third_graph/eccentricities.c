/* How far the farthest place is from each: four doublings of paths, then rows of the distances. */

#define DOUBLINGS 4

void kernel_eccentricities(int n, float d[n][n], float next[n][n], float ecc[n], float close[n],
                           float span[2])
{
#pragma scop
    for (int i = 0; i < n; i++)
        d[i][i] = 0.0f;
    for (int t = 0; t < DOUBLINGS; t++) {
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                float best = d[i][j];
                for (int k = 0; k < n; k++) {
                    float way = d[i][k] + d[k][j];
                    if (way < best)
                        best = way;
                }
                next[i][j] = best;
            }
        }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                d[i][j] = next[i][j];
    }
    float radius = 1e30f, diameter = 0.0f;
    for (int i = 0; i < n; i++) {
        float far = 0.0f, sum = 0.0f;
        for (int j = 0; j < n; j++) {
            far = d[i][j] > far ? d[i][j] : far;
            sum += d[i][j];
        }
        ecc[i] = far;
        close[i] = sum > 0.0f ? (n - 1) / sum : 0.0f;
        if (far < radius)
            radius = far;
        if (far > diameter)
            diameter = far;
    }
    span[0] = radius;
    span[1] = diameter;
#pragma endscop
}
