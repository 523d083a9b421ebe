/* Recurrences and passes: what goes in waves, by diagonals, by rows, or by lengths of intervals. */

void corner(int n, T a[n][n])
{
#pragma scop
    for (int i = 1; i < n; i++)
        for (int j = 1; j < n; j++)
            a[i][j] = a[i - 1][j] > a[i][j - 1] ? a[i - 1][j] + 1 : a[i][j - 1] + a[i][j];
#pragma endscop
}

/* The border of a grid is parted from the recurrence. */
void grid(int n, T a[n][n])
{
#pragma scop
    for (int i = 1; i < n; i++) {
        a[i][0] = a[i - 1][0];
        for (int j = 1; j < n; j++) a[i][j] = a[i - 1][j] + a[i][j - 1];
    }
#pragma endscop
}

/* The cheapest split of every interval: rows from below, and shorter intervals first. */
void intervals(int n, T t[n][n], T w[n])
{
#pragma scop
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++) t[i][j] = w[i] + w[j];
        for (int j = i + 1; j < n; j++)
            for (int r = i + 1; r < j; r++)
                t[i][j] = t[i][j] < t[i][r] + t[r][j] ? t[i][j] : t[i][r] + t[r][j];
    }
#pragma endscop
}

void lengths(int n, T a[n][n], T p[n + 1])
{
    T c;
#pragma scop
    for (int d = 1; d < n; d++)
        for (int i = 0; i < n - d; i++)
            for (int k = i; k < i + d; k++) {
                c = a[i][k] + a[k + 1][i + d] + p[i] * p[k + 1] * p[i + d + 1];
                a[i][i + d] = c < a[i][i + d] ? c : a[i][i + d];
            }
#pragma endscop
}

void best_split(int n, T a[n + 2][n + 2])
{
#pragma scop
    for (int u = 0; u < n; u++)
        for (int j = n - u; j < n + 1; j++) {
            T t = a[n - u][j];
            for (int k = n - u; k < j; k++)
                t = t > a[n - 1 - u][k] + a[k + 1][j] ? t : a[n - 1 - u][k] + a[k + 1][j];
            a[n - 1 - u][j] = t + 1;
        }
#pragma endscop
}

/* What stands in the same row is read before and after it is written. */
void split_beside(int n, T a[n + 2][n + 2])
{
#pragma scop
    for (int u = 0; u < n; u++)
        for (int j = n - u; j < n + 1; j++) {
            T t = a[n - u][j];
            for (int k = n - u; k < j; k++)
                t = t > a[n - 1 - u][k + 1] + a[k + 1][j] ? t : a[n - 1 - u][k + 1] + a[k + 1][j];
            a[n - 1 - u][j] = t + 1;
        }
#pragma endscop
}

void split_in_order(int n, T a[n + 2][n + 2])
{
#pragma scop
    for (int u = 0; u < n; u++)
        for (int j = n - u; j < n + 1; j++) {
            T t = a[n - u][j];
            for (int k = n - u; k < j; k++) t = t / 2 + a[n - 1 - u][k - 1] + a[k + 1][j];
            a[n - 1 - u][j] = t + 1;
        }
#pragma endscop
}

void mirrored(int n, T a[n][n])
{
#pragma scop
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) a[i][j] = a[i][j] + a[n - 1 - i][j];
#pragma endscop
}

/* Five spellings of one table, by diagonals and by rows. */
#define MAX(a, b) ((a) > (b) ? (a) : (b))
void folded_by_lengths(int n, int x[n][n], int w[n][n])
{
#pragma scop
    for (int l = 1; l < n; l++)
        for (int i = 0; i < n - l; i++) {
            int j = i + l;
            int best = MAX(x[i + 1][j], x[i][j - 1]);
            best = MAX(best, x[i + 1][j - 1] + w[i][j]);
            for (int k = i + 1; k < j; k++) best = MAX(best, x[i][k] + x[k + 1][j]);
            x[i][j] = best;
        }
#pragma endscop
}

void folded_by_rows(int n, int x[n][n], int w[n][n])
{
#pragma scop
    for (int i = n - 1; i >= 0; i--)
        for (int j = i + 1; j < n; j++) {
            int best = MAX(x[i + 1][j], x[i][j - 1]);
            best = MAX(best, x[i + 1][j - 1] + w[i][j]);
            for (int k = i + 1; k < j; k++) best = MAX(best, x[i][k] + x[k + 1][j]);
            x[i][j] = best;
        }
#pragma endscop
}

void asked_by_lengths(int n, int x[n][n])
{
#pragma scop
    for (int l = 1; l < n; l++)
        for (int i = 0; i < n - l; i++) {
            int j = i + l;
            int best = x[i][j - 1];
            if (x[i + 1][j] > best) best = x[i + 1][j];
            for (int k = i; k < j; k++)
                if (x[i][k] + x[k + 1][j] > best) best = x[i][k] + x[k + 1][j];
            x[i][j] = best;
        }
#pragma endscop
}

void asked_by_rows(int n, int x[n][n])
{
#pragma scop
    for (int i = n - 1; i >= 0; i--)
        for (int j = i + 1; j < n; j++) {
            int best = x[i][j - 1];
            if (x[i + 1][j] > best) best = x[i + 1][j];
            for (int k = i; k < j; k++)
                if (x[i][k] + x[k + 1][j] > best) best = x[i][k] + x[k + 1][j];
            x[i][j] = best;
        }
#pragma endscop
}

void weighted_by_lengths(int n, T x[n][n], T w[n][n])
{
#pragma scop
    for (int l = 1; l < n; l++)
        for (int i = 0; i < n - l; i++) {
            int j = i + l;
            double best = fmin(x[i + 1][j] + w[0][i], x[i][j - 1] + w[0][j]);
            for (int k = i + 1; k < j; k++) best = fmin(best, x[i][k - 1] + x[k + 1][j]);
            x[i][j] = best + w[i][j];
        }
#pragma endscop
}

void named_by_lengths(int n, T x[n][n], T w[n][n])
{
#pragma scop
    for (int l = 1; l < n; l++)
        for (int i = 0; i < n - l; i++) {
            int j = i + l;
            T best = 1000000;
            for (int k = i; k < j; k++) {
                T cost = x[i][k] + x[k + 1][j];
                if (cost < best) best = cost;
            }
            x[i][j] = best + w[i][j];
        }
#pragma endscop
}

void stored_by_rows(int n, T x[n][n], T w[n][n])
{
#pragma scop
    for (int i = n - 1; i >= 0; i--)
        for (int j = i + 1; j < n; j++) {
            x[i][j] = 1000000;
            for (int k = i; k < j; k++) {
                T cost = x[i][k] + x[k + 1][j] + w[i][k];
                if (cost < x[i][j]) x[i][j] = cost;
            }
        }
#pragma endscop
}

/* A dot product is no table; neither is a row that every entry only waits for. */
void no_table(int n, T x[n][n], T w[n][n])
{
#pragma scop
    for (int i = n - 1; i >= 0; i--)
        for (int j = i + 1; j < n; j++) {
            T s = 0;
            for (int k = 0; k < n; k++) s += w[i][k] * w[k][j];
            x[i][j] = s;
        }
#pragma endscop
}

void waiting_row(int n, T x[n][n], T w[n][n])
{
#pragma scop
    for (int i = n - 1; i >= 0; i--)
        for (int j = i + 1; j < n; j++) {
            T s = w[i][j];
            if (x[i][j - 1] > s) s = x[i][j - 1];
            x[i][j] = s;
        }
#pragma endscop
}

/* Long chains go by diagonals: dependences to the left, above and between. */
void align(int n, int a[n][n], signed char s[n], signed char t[n])
{
#pragma scop
    for (int i = 1; i < n; i++)
        for (int j = 1; j < n; j++) {
            int best = a[i - 1][j] > a[i][j - 1] ? a[i - 1][j] - 2 : a[i][j - 1] - 2;
            int same = a[i - 1][j - 1] + (s[i] == t[j] ? 2 : -1);
            a[i][j] = same > best ? same : best;
        }
#pragma endscop
}

void align_beside_border(int n, int a[n][n], signed char s[n], signed char t[n])
{
#pragma scop
    for (int i = 1; i < n; i++) {
        a[i][0] = a[i - 1][0] - 2;
        for (int j = 1; j < n; j++) {
            int best = a[i - 1][j] > a[i][j - 1] ? a[i - 1][j] - 2 : a[i][j - 1] - 2;
            int same = a[i - 1][j - 1] + (s[i] == t[j] ? 2 : -1);
            a[i][j] = same > best ? same : best;
        }
    }
#pragma endscop
}

void short_chain(int n, int a[n][n], unsigned char w[n][n])
{
#pragma scop
    for (int i = 1; i < n; i++)
        for (int j = 1; j < n; j++) a[i][j] = w[i][j] ? 0 : a[i - 1][j] + a[i][j - 1];
#pragma endscop
}

void from_above(int n, int a[n][n])
{
#pragma scop
    for (int i = 1; i < n; i++)
        for (int j = 1; j < n; j++) a[i][j] = a[i - 1][j] * 3 + a[i - 1][j - 1];
#pragma endscop
}

void prices(int n, T t[n][n])
{
#pragma scop
    for (int i = 1; i < n; i++)
        for (int j = 1; j < n; j++) t[i][j] = 0.5 * (t[i - 1][j] + t[i][j - 1]);
#pragma endscop
}

/* Rows of tiles in waves run beside each other: each waits for its own last element. */
void ways(int n, int m, unsigned char wall[n][m], unsigned count[n][m])
{
#pragma scop
    for (int i = 1; i < n; i++) {
        count[i][0] = wall[i][0] ? 0 : count[i - 1][0];
        for (int j = 1; j < m; j++)
            count[i][j] = wall[i][j] ? 0 : count[i - 1][j] + count[i][j - 1] + count[i - 1][j - 1];
    }
#pragma endscop
}

void chains(int n, int m, unsigned factor[n][m], unsigned sum[n][m])
{
#pragma scop
    for (int i = 1; i < n; i++) {
        sum[i][0] = sum[i - 1][0] + factor[i][0];
        for (int j = 1; j < m; j++) sum[i][j] = factor[i][j] * sum[i][j - 1] + sum[i - 1][j];
    }
#pragma endscop
}

void ranks(int n, T x[n], int rank[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            rank[i] += x[j] <= x[i] ? 1 : 0;
            rank[j] += x[j] <= x[i] ? 0 : 1;
        }
#pragma endscop
}

/* Passes over planes. Of upwind fluxes a scalar has copies for each iteration. */
void upwind(int steps, int n, T c, T q[n][n], T next[n][n], T u[n][n])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) {
                T up = u[i][j] > 0 ? q[i][j] - q[i - 1][j] : q[i + 1][j] - q[i][j];
                next[i][j] = q[i][j] - c * u[i][j] * up;
            }
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) q[i][j] = next[i][j];
    }
#pragma endscop
}

void fluxes(int steps, int n, T h[n][n], T q[n][n], T f[n][n])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                T u = q[i][j] * h[i][j];
                f[i][j] = u * q[i][j];
            }
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) {
                h[i][j] -= 0.5 * (q[i + 1][j] - q[i - 1][j]);
                q[i][j] -= 0.5 * (f[i + 1][j] - f[i - 1][j]);
            }
    }
#pragma endscop
}

void jacobi(int m, int n, T a[n][n], T b[n][n])
{
#pragma scop
    for (int t = 0; t < m; t++) {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) b[i][j] = a[i - 1][j] + a[i][j + 1] + a[i + 1][j];
        for (int k = 1; k < n - 1; k++)
            for (int l = 1; l < n - 1; l++) a[k][l] = b[k - 1][l] + b[k][l - 1] + b[k + 1][l];
    }
#pragma endscop
}

void in_place(int m, int n, T a[n][n])
{
#pragma scop
    for (int t = 0; t < m; t++)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) a[i][j] = a[i - 1][j] + a[i][j + 1] + a[i + 1][j];
#pragma endscop
}

void edges(int m, int n, T e[n][n], T h[n][n], T f[m])
{
#pragma scop
    for (int t = 0; t < m; t++) {
        for (int z = 0; z < n; z++) h[0][z] = f[t];
        for (int i = 1; i < n; i++)
            for (int j = 0; j < n; j++) e[i][j] = e[i][j] - h[i - 1][j];
        for (int k = 0; k < n - 1; k++)
            for (int l = 0; l < n; l++) h[k][l] = h[k][l] + e[k + 1][l];
    }
#pragma endscop
}

/* What a pass reads behind its own elements is what the pass before has left. */
void option(int m, int n, T v[n], T f[m])
{
#pragma scop
    for (int t = 0; t < m; t++)
        for (int i = 0; i < n - 1; i++) v[i] = 0.5 * v[i] + 0.25 * v[i + 1] + f[t];
#pragma endscop
}

void lattice(int n, T p, T q, T k, T u[n], T v[n + 1])
{
#pragma scop
    for (int j = 0; j <= n; j++) v[j] = v[j] > 0 ? v[j] : 0;
    for (int t = n - 1; t >= 0; t--)
        for (int i = 0; i <= t; i++) {
            T held = p * v[i + 1] + q * v[i];
            T now = k - u[i];
            v[i] = held > now ? held : now;
        }
#pragma endscop
}

void put(int n, T p, T q, T k, T u[2 * n], T v[n + 1])
{
#pragma scop
    for (int j = 0; j <= n; j++) v[j] = v[j] > 0 ? v[j] : 0;
    for (int t = n - 1; t >= 0; t--)
        for (int i = 0; i <= t; i++) {
            T held = p * v[i + 1] + q * v[i];
            T now = k - u[2 * i - t + n];
            v[i] = held > now ? held : now;
        }
#pragma endscop
}

/* Every element needs what the same pass has made of the one before. */
void lattice_in_order(int n, T p, T q, T k, T u[n], T v[n + 1])
{
#pragma scop
    for (int t = n - 1; t >= 0; t--)
        for (int i = 0; i <= t; i++) {
            T held = p * v[i + 1] + q * v[i];
            T now = k - u[i];
            v[i + 1] = held > now ? held : now;
        }
#pragma endscop
}

void cubes(int steps, int n, T e[n][n][n], T h[n][n][n])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < n; i++)
            for (int j = 0; j < n; j++)
                for (int k = 0; k < n; k++) e[i][j][k] -= 0.5 * (h[i][j][k] - h[i - 1][j][k]);
        for (int i = 0; i < n - 1; i++)
            for (int j = 0; j < n; j++)
                for (int k = 0; k < n; k++) h[i][j][k] -= 0.5 * (e[i + 1][j][k] - e[i][j][k]);
    }
#pragma endscop
}

/* A loop that moves on is no loop of passes. */
void elements(int n, int m, T k[2][2], T x[n + 1][m + 1], T y[n + 1][m + 1])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            for (int a = 0; a < 2; a++)
                for (int b = 0; b < 2; b++) y[i + a][j + b] += k[a][b] * x[i + b][j + a];
#pragma endscop
}

/* Stages of a pipeline: the second one lags behind by its window. */
void blur(int n, int m, T a[n][m], T b[n][m], T c[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 1; j < m - 1; j++) b[i][j] = a[i][j - 1] + a[i][j] + a[i][j + 1];
    for (int y = 1; y < n - 1; y++)
        for (int x = 1; x < m - 1; x++) c[y][x] = b[y - 1][x] + b[y][x] + b[y + 1][x];
#pragma endscop
}

void half(int n, int m, T a[2 * n][m], T b[2 * n][m], T c[n][m])
{
#pragma scop
    for (int i = 0; i < 2 * n; i++)
        for (int j = 0; j < m; j++) b[i][j] = 2 * a[i][j];
    for (int y = 0; y < n - 1; y++)
        for (int x = 0; x < m; x++) c[y][x] = b[2 * y][x] + b[2 * y + 1][x] + b[2 * y + 2][x];
#pragma endscop
}

void between(int n, int m, T a[n][m], T b[n][m], T c[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 1; j < m - 1; j++) b[i][j] = a[i][j - 1] + a[i][j] + a[i][j + 1];
    for (int k = 0; k < m; k++) c[0][k] = b[0][k];
    for (int y = 1; y < n - 1; y++)
        for (int x = 1; x < m - 1; x++) c[y][x] = b[y - 1][x] + b[y][x] + b[y + 1][x];
#pragma endscop
}

void backwards(int n, int m, T a[n][m], T b[n][m], T c[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 1; j < m - 1; j++) b[i][j] = a[i][j - 1] + a[i][j] + a[i][j + 1];
    for (int y = 1; y < n - 1; y++)
        for (int x = 1; x < m - 1; x++) c[y][x] = b[n - 1 - y][x];
#pragma endscop
}

/* Rows side by side: more of them than sets of the nearest cache. */
void maxwell(int steps, int n, T ex[n][n][n], T ey[n][n][n], T ez[n][n][n], T hx[n][n][n],
             T hy[n][n][n], T hz[n][n][n])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < n; i++)
            for (int j = 1; j < n; j++)
                for (int k = 1; k < n; k++) {
                    ex[i][j][k] += hz[i][j][k] - hz[i][j - 1][k] - hy[i][j][k] + hy[i][j][k - 1];
                    ey[i][j][k] += hx[i][j][k] - hx[i][j][k - 1] - hz[i][j][k] + hz[i - 1][j][k];
                    ez[i][j][k] += hy[i][j][k] - hy[i - 1][j][k] - hx[i][j][k] + hx[i][j - 1][k];
                }
        for (int i = 0; i < n - 1; i++)
            for (int j = 0; j < n - 1; j++)
                for (int k = 0; k < n - 1; k++) {
                    hx[i][j][k] -= ez[i][j + 1][k] - ez[i][j][k] - ey[i][j][k + 1] + ey[i][j][k];
                    hy[i][j][k] -= ex[i][j][k + 1] - ex[i][j][k] - ez[i + 1][j][k] + ez[i][j][k];
                    hz[i][j][k] -= ey[i + 1][j][k] - ey[i][j][k] - ex[i][j + 1][k] + ex[i][j][k];
                }
    }
#pragma endscop
}

void running_rows(int n, T a[n][n], T s[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 1; j < n; j++) s[i][j] = s[i][j - 1] + a[i][j];
#pragma endscop
}

/* Several lines at a time would take the place in the nearest cache that one has alone. */
void lines(int steps, int rows, int n, T c, T u[rows][n], T v[rows][n])
{
#pragma scop
    for (int l = 0; l < rows; l++)
        for (int t = 0; t < steps; t++) {
            for (int i = 0; i < n - 1; i++)
                v[l][i] = 0.5 * (u[l][i] + u[l][i + 1]) - c * (u[l][i + 1] - u[l][i]);
            for (int i = 1; i < n - 1; i++) u[l][i] -= c * (v[l][i] - v[l][i - 1]);
        }
#pragma endscop
}
