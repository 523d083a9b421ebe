/* Loops in vectors: along outer loops, under conditions, over short loops and windows. */

void pairs(int n, T x[n], T m[n], T f[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        T s = 0;
        for (int j = 0; j < n; j++) {
            T d = x[j] - x[i];
            T w = m[j] / (d * d + 1);
            s += d * w;
        }
        f[i] = s;
    }
#pragma endscop
}

void row_products(int n, T a[n][n], T x[n], T y[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        T s = 0;
        for (int j = 0; j < n; j++) s += a[i][j] * x[j];
        y[i] = s * 2;
    }
#pragma endscop
}

void taps(int n, int m, unsigned char img[8][n + 2][m + 4], int tap[8][5][5],
          unsigned char out[n][m])
{
#pragma scop
    for (int y = 0; y < n; y++)
        for (int x = 0; x < m; x++) {
            int sum = 128;
            for (int c = 0; c < 8; c++)
                for (int a = 0; a < 3; a++)
                    for (int b = 0; b < 5; b++) sum += tap[c][a][b] * img[c][y + a][x + b];
            out[y][x] = sum < 0 ? 0 : sum > 255 ? 255 : sum;
        }
#pragma endscop
}

void best(int n, int gain[n], int before[n], int after[n])
{
#pragma scop
    for (int c = 0; c < n; c++) {
        int most = -1000000;
        for (int h = 0; h <= c; h++) {
            int v = before[c - h] + gain[h];
            most = v > most ? v : most;
        }
        after[c] = most;
    }
#pragma endscop
}

/* Strips of c may go around p, one behind the other: threads get blocks of lanes inside. */
void knapsacks(int n, int m, T gain[n][m], T total[n][m])
{
#pragma scop
    for (int p = 1; p < n; p++)
        for (int c = 0; c < m; c++) {
            T top = -1000000;
            for (int h = 0; h <= c; h++) {
                T v = total[p - 1][c - h] + gain[p][h];
                top = v > top ? v : top;
            }
            total[p][c] = top;
        }
#pragma endscop
}

/* Numbers of iterations become floating ones in lanes. */
void lags(int n, int most, T x[n], T r[most])
{
#pragma scop
    for (int l = 0; l < most; l++) {
        T s = 0;
        for (int i = 0; i < n - l; i++) s += x[i] * x[i + l];
        r[l] = s / (2.0 * (n - l));
    }
#pragma endscop
}

void short_lags(int n, int most, T x[n], T r[most])
{
#pragma scop
    for (int l = 0; l < most; l++) {
        T s = 0;
        for (int i = 0; i < 40 - l; i++) s += x[i] * x[i + l];
        r[l] = s;
    }
#pragma endscop
}

/* gcc computes it in vectors either way: apart from its sum it only goes through memory. */
void row_lags(int h, int w, int most, T z[h][w], T north[most])
{
#pragma scop
    for (int l = 0; l < most; l++) {
        T v = 0;
        for (int i = 0; i < h - l; i++)
            for (int j = 0; j < w; j++) {
                T d = z[i + l][j] - z[i][j];
                v += d * d;
            }
        north[l] = v / w;
    }
#pragma endscop
}

/* Loops along small arrays are copies: the arrays become registers. */
void sections(int rows, int n, T c[4][4], T x[rows][n], T y[rows][n])
{
#pragma scop
    for (int r = 0; r < rows; r++) {
        T s[4];
        for (int k = 0; k < 4; k++) s[k] = 0;
        for (int i = 0; i < n; i++) {
            T v = x[r][i];
            for (int k = 0; k < 4; k++) {
                T w = c[k][0] * v + s[k];
                s[k] = c[k][1] * v - c[k][2] * w + c[k][3] * s[k];
                v = w;
            }
            y[r][i] = v;
        }
    }
#pragma endscop
}

/* A local array becomes one of vectors, as far as there is room. */
void frames(int n, int len, T x[n + 300], T w[len], T c[40][len], T y[n][40])
{
#pragma scop
    for (int f = 0; f < n; f++) {
        T buf[len];
        for (int t = 0; t < len; t++) buf[t] = x[f + t] * w[t];
        for (int b = 0; b < 40; b++) {
            T s = 0;
            for (int t = 0; t < len; t++) s += buf[t] * c[b][t];
            y[f][b] = s;
        }
    }
#pragma endscop
}

/* Sums over a short window that moves along differ at the borders only. */
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min(a, b) ((a) < (b) ? (a) : (b))
void full(int n, int m, float x[n][n], float h[m][m], float y[n + m][n + m])
{
#pragma scop
    for (int i = 0; i < n + m - 1; i++)
        for (int j = 0; j < n + m - 1; j++) {
            float s = 0;
            for (int u = max(0, i - m + 1); u <= min(i, n - 1); u++)
                for (int v = max(0, j - m + 1); v <= min(j, n - 1); v++)
                    s += x[u][v] * h[i - u][j - v];
            y[i][j] = s;
        }
#pragma endscop
}

void full_in_place(int n, int m, float x[n][n], float h[m][m], float y[n + m][n + m])
{
#pragma scop
    for (int i = 0; i < n + m - 1; i++)
        for (int j = 0; j < n + m - 1; j++) {
            y[i][j] = 0;
            for (int u = max(0, i - m + 1); u <= min(i, n - 1); u++)
                for (int v = max(0, j - m + 1); v <= min(j, n - 1); v++)
                    y[i][j] += x[u][v] * h[i - u][j - v];
        }
#pragma endscop
}

/* Loops that compilers write out are not cut. */
void nine(int n, int m, T x[n][m], T h[9][9], T y[n + 8][m + 8])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            for (int u = 0; u < 9; u++)
                for (int v = 0; v < 9; v++) y[i + u][j + v] += x[i][j] * h[u][v];
#pragma endscop
}

void powers(int n, int m, T w[n], T x[n][m], T sums[5][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            T power = w[i];
            for (int p = 0; p < 5; p++) {
                sums[p][j] += power;
                power *= x[i][j];
            }
        }
#pragma endscop
}

/* Conditions and counts are lanes; integers that are wider have none beside. */
void near(int n, T cut, T x[n], T y[n], T f[n], T g[n], int count[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        f[i] = 0; g[i] = 0; count[i] = 0;
        for (int j = 0; j < n; j++) {
            T dx = x[i] - x[j], dy = y[i] - y[j];
            T d2 = dx * dx + dy * dy;
            if (j != i && d2 < cut && d2 > 0) {
                T w = 1 / d2;
                f[i] += w * dx;
                g[i] += w * dy;
                count[i]++;
            }
        }
    }
#pragma endscop
}

void near_in_long(int n, float cut, float x[n], float f[n], long count[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        f[i] = 0; count[i] = 0;
        for (int j = 0; j < n; j++) {
            float d = x[i] - x[j];
            if (d < cut) {
                f[i] += d;
                count[i]++;
            }
        }
    }
#pragma endscop
}

/* More statements than searches for another order are likely to end with. */
void many(int n, int steps, float cut, float x[n], float v[n], float f[n], float top[n],
          int met[n])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++) {
            f[i] = 0; top[i] = 0; met[i] = 0;
            for (int j = 0; j < n; j++) {
                float d = x[i] - x[j], r = v[i] - v[j];
                float a = d * d, b = r * r, c = a + b;
                if (c < cut && i < j) {
                    float s = sqrtf(c), p = d / s, q = r / s;
                    float push = cut - s;
                    if (push > 0.5f) push = 0.5f;
                    float pull = p > q ? p : q;
                    f[i] += push * p;
                    top[i] += pull * q;
                    met[i] += 1;
                }
            }
            if (f[i] > cut) f[i] = cut;
        }
        for (int i = 0; i < n; i++) {
            v[i] += f[i]; x[i] += v[i]; top[i] *= v[i];
        }
    }
#pragma endscop
}

/* A few targets of every leaf, points of a cell: lanes along short loops around long ones. */
void leaves(int n, int few, int m, float cut, float x[n][few], float y[n][few], float p[m],
            float q[m], float f[n][few], int hits[n][few])
{
#pragma scop
    for (int l = 0; l < n; l++)
        for (int t = 0; t < few; t++) {
            float s = 0.0f;
            int h = 0;
            for (int k = 0; k < m; k++) {
                float dx = p[k] - x[l][t], dy = q[k] - y[l][t];
                float r2 = dx * dx + dy * dy;
                if (r2 > 0.0f && r2 < cut) {
                    s += dx / r2;
                    h++;
                }
            }
            f[l][t] = s;
            hits[l][t] = h;
        }
#pragma endscop
}

void cells(int n, int few, int reach, T cut, T x[n][few], T f[n][few])
{
#pragma scop
    for (int c = reach; c < n - reach; c++)
        for (int a = 0; a < few; a++) {
            T s = 0;
            for (int o = -reach; o <= reach; o++)
                for (int b = 0; b < few; b++) {
                    T d = x[c][a] - x[c + o][b] - o;
                    T r2 = d * d;
                    if (r2 > 0 && r2 < cut) s += d * (1 / r2 - 1 / cut);
                }
            f[c][a] = s;
        }
#pragma endscop
}

/* Copies of the loop over bodies, four at once, have short loops of their own ranges inside. */
void bodies(int n, int m, T x[n][m][3], T w[n][m], T t[n][3][3], T far[n])
{
#pragma scop
    for (int b = 0; b < n; b++) {
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) t[b][i][j] = 0;
        for (int p = 0; p < m; p++) {
            T r2 = x[b][p][0] * x[b][p][0] + x[b][p][1] * x[b][p][1];
            for (int i = 0; i < 3; i++)
                for (int j = 0; j <= i; j++)
                    t[b][i][j] += w[b][p] * ((i == j ? r2 : 0) - x[b][p][i] * x[b][p][j]);
        }
    }
    for (int b = 0; b < n; b++) {
        T s = 0;
        for (int d = 0; d < n; d++) {
            T r = b - d + 0.5;
            s += t[d][0][0] / (r * r) + t[d][1][1] / (r * r * r);
        }
        far[b] = s;
    }
#pragma endscop
}

/* Windows that are unrolled whole into the loop around them, fixed and moving along. */
void window(int n, int m, unsigned char src[n + 4][m + 4], unsigned char dst[n][m])
{
#pragma scop
    for (int r = 0; r < n; r++)
        for (int c = 0; c < m; c++) {
            unsigned char lo = 255, hi = 0;
            for (int i = 0; i < 5; i++)
                for (int j = 0; j < 5; j++) {
                    unsigned char v = src[r + i][c + j];
                    if (v < lo) lo = v;
                    if (v > hi) hi = v;
                }
            dst[r][c] = hi - lo;
        }
#pragma endscop
}

void moving(int n, int m, T a[n][m], T out[n][m])
{
#pragma scop
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < m - 1; j++) {
            T s = 0;
            for (int y = i - 1; y <= i + 1; y++)
                for (int x = j - 1; x <= j + 1; x++) s += a[y][x];
            out[i][j] = s / 2;
        }
#pragma endscop
}

/* Elements with gaps are neighbours where the gaps are used too. */
void colours(int n, int m, int mix[3][3], unsigned short raw[n][m][2], unsigned char out[n][m][3])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            int a = raw[i][j][0], b = raw[i][j][1];
            for (int k = 0; k < 3; k++)
                out[i][j][k] = (mix[k][0] * a + mix[k][1] * b + mix[k][2]) / 7;
        }
#pragma endscop
}

void colours_apart(int n, int m, int mix[3][3], unsigned short raw[n][m][2],
                   unsigned char out[n][m][4])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            int a = raw[i][j][0], b = raw[i][j][1];
            for (int k = 0; k < 3; k++)
                out[i][j][k] = (mix[k][0] * a + mix[k][1] * b + mix[k][2]) / 7;
        }
#pragma endscop
}

void rays(int n, int m, T c[4], T u[n + 8][m + 8], T v[n][m])
{
#pragma scop
    for (int y = 0; y < n; y++)
        for (int x = 0; x < m; x++) {
            T sum = u[y + 4][x + 4];
            for (int r = 0; r < 4; r++)
                sum += c[r] * (u[y + 4][x + 4 + r] + u[y + 4 + r][x + 4]);
            v[y][x] = sum;
        }
#pragma endscop
}

void here(int n, int m, T e[n + 1][m + 1], T x[n][m], T y[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            T middle = e[i][j];
            x[i][j] -= e[i][j + 1] - middle;
            y[i][j] += e[i + 1][j] - middle;
        }
#pragma endscop
}

/* Loops that fill vectors need not be long. */
void blocks(int n, int wide, float a[n][8][wide], float c[8][8], float b[n][8][wide])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int v = 0; v < 8; v++)
            for (int u = 0; u < wide; u++) {
                float s = 0.0f;
                for (int y = 0; y < 8; y++) s += a[i][y][u] * c[v][y];
                b[i][v][u] = s;
            }
#pragma endscop
}

void small_triangles(int n, T m[n][4][4])
{
#pragma scop
    for (int p = 0; p < n; p++)
        for (int k = 0; k < 4; k++)
            for (int i = k + 1; i < 4; i++)
                for (int j = k + 1; j < 4; j++) m[p][i][j] -= m[p][i][k] * m[p][k][j];
#pragma endscop
}

/* Rows of integer sums, several at a time, share the operands that they have in common. */
void scores(int n, int m, int len, signed char a[n][len], signed char b[m][len], float f[n],
            float y[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            int s = 0;
            for (int l = 0; l < len; l++) s += (int)a[i][l] * (int)b[j][l];
            y[i][j] = s * f[i];
        }
#pragma endscop
}

/* Copies that begin elsewhere are guarded, which hides the sums from compilers. */
void triangles(int n, int e[n][n], int count[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            for (int k = j + 1; k < n; k++) count[i] += e[i][j] & e[j][k] & e[i][k];
#pragma endscop
}

/* Simd loops that begin with a vector that is stored whole. */
void from_three(int n, T a[n + 1][n], T b[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 3; j < n; j++) b[i][j] = a[i][j] + a[i + 1][j];
#pragma endscop
}

void from_four(int n, T a[n + 1][n], T b[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 4; j < n; j++) b[i][j] = a[i][j] + a[i + 1][j];
#pragma endscop
}

void left_of(int n, T a[n + 1][n], T b[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 4; j < n; j++) b[i][j] = a[i][j - 1] + a[i][j];
#pragma endscop
}

void halves(int n, unsigned char a[n][n], unsigned char b[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 1; j < n; j++) b[i][j] = a[i][j] / 2;
#pragma endscop
}
