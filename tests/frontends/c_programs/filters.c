/* Images: borders repeat the outermost pixel. */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CLAMP(x, lo, hi) MIN(MAX(x, lo), hi)

static inline int clamp(int x, int hi)
{
    if (x < 0)
        return 0;
    if (x > hi)
        return hi;
    return x;
}

static inline unsigned char saturate(int x)
{
    return x < 0 ? 0 : x > 255 ? 255 : x;
}

void sharpen(int h, int w, const unsigned char in[h][w], unsigned char out[h][w])
{
#pragma scop
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            out[y][x] = saturate(5 * in[y][x] - in[clamp(y - 1, h - 1)][x] - in[clamp(y + 1, h - 1)][x]
                - in[y][clamp(x - 1, w - 1)] - in[y][clamp(x + 1, w - 1)]);
#pragma endscop
}

void smooth(int h, int w, float in[h][w], float out[h][w])
{
#pragma scop
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            out[y][x] = (in[y][CLAMP(x - 2, 0, w - 1)] + 4.0f * in[y][CLAMP(x - 1, 0, w - 1)]
                + 6.0f * in[y][x] + 4.0f * in[y][CLAMP(x + 1, 0, w - 1)]
                + in[y][CLAMP(x + 2, 0, w - 1)]) / 16.0f;
#pragma endscop
}

void first_difference(int n, double *u, double *d)
{
#pragma scop
    for (int i = 0; i < n; i++)
        d[i] = u[i] - u[i > 0 ? i - 1 : 0];
#pragma endscop
}
