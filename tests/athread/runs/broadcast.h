enum { T = 8, N = 8 * T };
typedef struct {
    double a[N][N], b[N][N], c[N][N];
} Product;
