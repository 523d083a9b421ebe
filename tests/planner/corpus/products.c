/* Contractions: alone, in batches and chains, in factorisations, beside other statements. */

void product(int n, int m, int k, T a[n][k], T b[k][m], T c[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            for (int p = 0; p < k; p++) c[i][j] += a[i][p] * b[p][j];
#pragma endscop
}

void scaled(int n, int m, int k, T a[n][k], T b[k][m], T c[n][m], T alpha, T beta)
{
#pragma scop
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++) c[i][j] *= beta;
        for (int p = 0; p < k; p++)
            for (int j = 0; j < m; j++) c[i][j] += alpha * a[i][p] * b[p][j];
    }
#pragma endscop
}

void two_products(int n, T t[n][n], T a[n][n], T b[n][n], T c[n][n], T d[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            t[i][j] = 0;
            for (int k = 0; k < n; k++) t[i][j] += a[i][k] * b[k][j];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) d[i][j] += t[i][k] * c[k][j];
#pragma endscop
}

void lower(int n, int m, T a[n][m], T c[n][n], T alpha, T beta)
{
#pragma scop
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) c[i][j] *= beta;
        for (int k = 0; k < m; k++)
            for (int j = 0; j <= i; j++) c[i][j] += alpha * a[i][k] * a[j][k];
    }
#pragma endscop
}

void lower_of_two(int n, int m, T a[n][m], T b[n][m], T c[n][n], T alpha)
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            for (int j = 0; j <= i; j++)
                c[i][j] += a[j][k] * alpha * b[i][k] + b[j][k] * alpha * a[i][k];
#pragma endscop
}

void from_below(int n, int m, T a[n][n], T b[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            for (int k = i + 1; k < n; k++) b[i][j] += a[k][i] * b[k][j];
            b[i][j] = 2 * b[i][j];
        }
#pragma endscop
}

void symmetric(int n, int m, T a[n][n], T b[n][m], T c[n][m], T alpha, T beta)
{
    T above;
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            above = 0;
            for (int k = 0; k < i; k++) {
                c[k][j] += alpha * b[i][j] * a[i][k];
                above += b[k][j] * a[i][k];
            }
            c[i][j] = beta * c[i][j] + alpha * b[i][j] * a[i][i] + alpha * above;
        }
#pragma endscop
}

void tensor_lines(int r, int q, int p, T a[r][q][p], T c[p][p], T line[p])
{
#pragma scop
    for (int x = 0; x < r; x++)
        for (int y = 0; y < q; y++) {
            for (int z = 0; z < p; z++) {
                line[z] = 0;
                for (int s = 0; s < p; s++) line[z] += a[x][y][s] * c[s][z];
            }
            for (int z = 0; z < p; z++) a[x][y][z] = line[z];
        }
#pragma endscop
}

void covariances(int n, int m, T data[n][m], T cov[m][m])
{
#pragma scop
    for (int i = 0; i < m; i++)
        for (int j = i; j < m; j++) {
            cov[i][j] = 0;
            for (int k = 0; k < n; k++) cov[i][j] += data[k][i] * data[k][j];
            cov[i][j] = cov[i][j] / 2;
            cov[j][i] = cov[i][j];
        }
#pragma endscop
}

void factors(int n, T a[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[k][j];
            a[i][j] += a[j][j];
        }
        for (int j = i; j < n; j++)
            for (int k = 0; k < i; k++) a[i][j] -= a[i][k] * a[k][j];
    }
#pragma endscop
}

void lower_factors(int n, T a[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[j][k];
            a[i][j] += a[j][j];
        }
        for (int k = 0; k < i; k++) a[i][i] -= a[i][k] * a[i][k];
        a[i][i] = 2 * a[i][i];
    }
#pragma endscop
}

void solved(int n, T a[n][n], T b[n], T y[n])
{
    T w;
#pragma scop
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) {
            w = a[i][j];
            for (int k = 0; k < j; k++) w -= a[i][k] * a[k][j];
            a[i][j] = w + a[j][j];
        }
        for (int j = i; j < n; j++) {
            w = a[i][j];
            for (int k = 0; k < i; k++) w -= a[i][k] * a[k][j];
            a[i][j] = w;
        }
    }
    for (int i = 0; i < n; i++) {
        w = b[i];
        for (int j = 0; j < i; j++) w -= a[i][j] * y[j];
        y[i] = w;
    }
#pragma endscop
}

/* Statements without a product of two matrices, or with too few of them. */
void one_factor(int n, T a[n][n], T c[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) c[i][j] += a[i][k];
#pragma endscop
}

void diagonal_only(int n, T a[n][n], T b[n][n], T c[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) c[i][i] += a[i][k] * b[k][i];
#pragma endscop
}

void three_factors(int n, T a[n][n], T b[n][n], T c[n][n], T d[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) c[i][j] += a[i][k] * b[k][j] * d[k][k];
#pragma endscop
}

void no_update(int n, T a[n][n], T b[n][n], T c[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) c[i][j] = a[i][k] * b[k][j];
#pragma endscop
}

void no_reduction(int n, T a[n][n], T b[n][n], T c[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) c[i][j] += a[i][i] * b[j][j];
#pragma endscop
}

/* How far two loops are apart is a parameter: there may be hardly any products. */
void band(int w, int n, T a[n][n], T b[n][n], T c[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = max(0, i - w); j < min(n, i + w + 1); j++)
            for (int k = 0; k < n; k++) c[i][j] += a[i][k] * b[k][j];
#pragma endscop
}

void small_product(int n, T a[n][n], T b[n][n], T c[n][n])
{
#pragma scop
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 2; k++) c[i][j] += a[i][k] * b[k][j];
#pragma endscop
}

/* Products of small matrices: rows in registers, not sums in memory. */
void many_small(int n, T a[n][8][8], T b[n][8][8], T c[n][8][8])
{
#pragma scop
    for (int p = 0; p < n; p++)
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) {
                T s = 0;
                for (int k = 0; k < 8; k++) s += a[p][i][k] * b[p][k][j];
                c[p][i][j] = s;
            }
#pragma endscop
}

/* Products of integers, by dot instructions in machine code and as loops in C. */
void dots(int n, int m, int k, T a[n][k], T b[m][k], int dot[n][m], float score[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            int acc = 0;
            for (int l = 0; l < k; l++) acc += (int)a[i][l] * (int)b[j][l];
            dot[i][j] = acc;
            score[i][j] = acc * 0.5f;
        }
#pragma endscop
}

/* Columns of b are used again and again: loops over tiles of i and j. Of `min_of_rows` rows are. */
void min_of_columns(int n, T a[n][n], T b[n][n])
{
#pragma scop
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            a[i][j] = a[i][j] + 1;
            for (int k = 0; k < n; k++)
                a[i][j] = a[i][j] > b[i][k] + b[k][j] ? a[i][j] : b[i][k] + b[k][j];
        }
#pragma endscop
}

void min_of_rows(int n, T a[n][n], T b[n][n])
{
#pragma scop
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            a[i][j] = a[i][j] + 1;
            for (int k = 0; k < n; k++)
                a[i][j] = a[i][j] > b[i][k] + b[j][k] ? a[i][j] : b[i][k] + b[j][k];
        }
#pragma endscop
}

/* A batch of products whose rows are divided by sums of other rows. */
void shares(int h, int n, int d, T p[h][n][n], T v[h][n][d], T o[h][n][d])
{
#pragma scop
    for (int g = 0; g < h; g++)
        for (int i = 0; i < n; i++) {
            T z = 0;
            for (int j = 0; j < n; j++) z += p[g][i][j];
            for (int c = 0; c < d; c++) {
                T s = 0;
                for (int j = 0; j < n; j++) s += p[g][i][j] * v[g][j][c];
                o[g][i][c] = s / z;
            }
        }
#pragma endscop
}

/* Two sums over three arrays of rows, one of them a product. */
void density(int n, int m, T a[n][m], T b[n][m], T d[m][m], T r[n], T g[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        T s = 0, t = 0;
        for (int j = 0; j < m; j++) {
            T x = 0;
            for (int k = 0; k < m; k++) x += d[j][k] * a[i][k];
            s += a[i][j] * x;
            t += b[i][j] * x;
        }
        r[i] = s;
        g[i] = t;
    }
#pragma endscop
}

/* Tensor programs: batches, first values, epilogues, offsets, triangles, several products. */
void layer(int B, int n, int m, int k, T o[B][n][m], T a[B][n][k], T w[B][k][m], T bias[m])
{
#pragma scop
    for (int x = 0; x < B; x++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                o[x][i][j] = bias[j];
                for (int p = 0; p < k; p++) o[x][i][j] += a[x][i][p] * w[x][p][j];
                o[x][i][j] = o[x][i][j] > 0 ? o[x][i][j] : 0;
            }
#pragma endscop
}

void chained(int B, int n, int m, int k, T e[B][n][m], T c[B][n][k], T a[B][n][m], T f[m][k],
             T g[k][m])
{
#pragma scop
    for (int x = 0; x < B; x++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < k; j++) {
                c[x][i][j] = 0;
                for (int p = 0; p < m; p++) c[x][i][j] += a[x][i][p] * f[p][j];
            }
    for (int x = 0; x < B; x++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                e[x][i][j] = 0;
                for (int p = 0; p < k; p++) e[x][i][j] += c[x][i][p] * g[p][j];
            }
#pragma endscop
}

void four_index(int B, int n, int m, T r[B][B][n][m], T t[B][n][n][m], T a[B][n][n][m], T c[B][B],
                T d[n][B])
{
#pragma scop
    for (int x = 0; x < B; x++)
        for (int q = 0; q < n; q++)
            for (int y = 0; y < n; y++)
                for (int s = 0; s < m; s++) {
                    t[x][q][y][s] = 0;
                    for (int p = 0; p < B; p++) t[x][q][y][s] += a[p][q][y][s] * c[p][x];
                }
    for (int x = 0; x < B; x++)
        for (int b = 0; b < B; b++)
            for (int y = 0; y < n; y++)
                for (int s = 0; s < m; s++) {
                    r[x][b][y][s] = 0;
                    for (int q = 0; q < n; q++) r[x][b][y][s] += t[x][q][y][s] * d[q][b];
                }
#pragma endscop
}

void attention(int B, int n, int k, T o[B][n][k], T s[B][n][n], T q[B][n][k], T j[B][n][k],
               T v[B][n][k])
{
#pragma scop
    for (int h = 0; h < B; h++) {
        for (int i = 0; i < n; i++)
            for (int c = 0; c <= i; c++) {
                s[h][i][c] = 0;
                for (int d = 0; d < k; d++) s[h][i][c] += q[h][i][d] * j[h][c][d];
                s[h][i][c] = s[h][i][c] * 2;
            }
        for (int i = 0; i < n; i++)
            for (int d = 0; d < k; d++) {
                o[h][i][d] = 0;
                for (int c = 0; c <= i; c++) o[h][i][d] += s[h][i][c] * v[h][c][d];
            }
    }
#pragma endscop
}

/* Loops of the batch stand between rows and columns. */
void pointwise(int B, int n, int m, int k, T o[B][m][n][n], T a[B][k][n][n], T w[m][k], T bias[m])
{
#pragma scop
    for (int b = 0; b < B; b++)
        for (int r = 0; r < m; r++)
            for (int y = 0; y < n; y++)
                for (int x = 0; x < n; x++) {
                    T s = bias[r];
                    for (int c = 0; c < k; c++) s += w[r][c] * a[b][c][y][x];
                    o[b][r][y][x] = s > 0 ? s : 0;
                }
#pragma endscop
}

/* Windows are short: products go along channels. */
void convolution(int n, int m, int k, T o[m][n][n], T a[k][n + 2][n + 2], T w[m][k][3][3])
{
#pragma scop
    for (int r = 0; r < m; r++)
        for (int y = 0; y < n; y++)
            for (int x = 0; x < n; x++) {
                T s = 0;
                for (int c = 0; c < k; c++)
                    for (int u = 0; u < 3; u++)
                        for (int v = 0; v < 3; v++) s += w[r][c][u][v] * a[c][y + u][x + v];
                o[r][y][x] = s;
            }
#pragma endscop
}

void shifted(int B, int n, int m, int k, T c[B + 1][n + 2][m], T a[B][n + 2][k], T d[k][m])
{
#pragma scop
    for (int x = 1; x < B; x++)
        for (int i = 2; i < n; i++)
            for (int j = 1; j < m - 1; j++)
                for (int p = 1; p < k; p++) c[x + 1][i + 1][j] += a[x - 1][i + 2][p] * d[p][j + 1];
#pragma endscop
}

void over_time(int B, int n, T c[B][n][n], T a[B][n][n], T d[B][n][n])
{
#pragma scop
    for (int t = 0; t < 3; t++) {
        for (int x = 0; x < B; x++)
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) {
                    c[x][i][j] = 0;
                    for (int p = 0; p < n; p++) c[x][i][j] += a[x][i][p] * d[x][p][j];
                }
        for (int x = 0; x < B; x++)
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++)
                    a[x][i][j] = c[x][i][j] > 3 ? 1 : c[x][i][j] < -3 ? -1 : 0;
    }
#pragma endscop
}

void in_one_nest(int B, int n, int m, int k, T c[B][n][m], T d[B][n][m], T a[B][n][k],
                 T f[B][k][m])
{
#pragma scop
    for (int x = 0; x < B; x++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                for (int p = 0; p < k; p++) {
                    c[x][i][j] += a[x][i][p] * f[x][p][j];
                    d[x][i][j] -= a[x][i][p] * f[x][p][j];
                }
#pragma endscop
}
