enum { N = 256, T = N / 8, K = 32 }; /* each CPE has a tile of T x T of C, and takes K steps at once */

typedef struct {
    double (*a)[N], (*b)[N], (*c)[N];
} Matrices;
