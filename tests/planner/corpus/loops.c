/* Loops over arrays: maps, sums, scans and what stands beside them.

   Each function is planned by itself. T is double unless a test says so; sizes that a test names
   are constants then, and no arguments. */

void map(int n, T x[n])
{
#pragma scop
    for (int i = 0; i < n; i++) x[i] = 2 * x[i];
#pragma endscop
}

void rows(int n, T a[n][n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) a[i][j] = a[i][j] + 1;
#pragma endscop
}

void copy_columns(int n, int m, T a[n][m], T b[n][m])
{
#pragma scop
    for (int j = 0; j < m; j++)
        for (int i = 0; i < n; i++) b[i][j] = a[i][j] * 2;
#pragma endscop
}

/* Elements of two widths: vectors of one are half a line of the other. */
void two_widths(int m, int n, double x[m][n], double y[n], T z[n])
{
#pragma scop
    for (int t = 0; t < m; t++)
        for (int i = 0; i < n; i++) {
            y[i] = y[i] + x[t][i];
            z[i] = z[i] + 1;
        }
#pragma endscop
}

void own_scalar(int n, T x[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        T s = x[i];
        for (int k = 0; k < 3; k++) x[i] = x[i] + s;
    }
#pragma endscop
}

void columns(int n, T a[n][n], T y[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) y[j] = y[j] + a[i][j];
#pragma endscop
}

/* Rows and columns of one matrix at once: neither loop is free. */
void both_sums(int n, T a[n][n], T x[n], T y[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            x[i] = x[i] + a[i][j];
            y[j] = y[j] + a[i][j];
        }
#pragma endscop
}

/* A column, or a row, is scaled in every step of a serial loop. */
void scaled_column(int n, T a[n][n], T s[1])
{
#pragma scop
    for (int k = 0; k < n; k++) {
        s[0] = s[0] + a[k][k];
        for (int i = 0; i < n; i++) a[i][k] = a[i][k] * s[0];
    }
#pragma endscop
}

void scaled_row(int n, T a[n][n], T s[1])
{
#pragma scop
    for (int k = 0; k < n; k++) {
        s[0] = s[0] + a[k][k];
        for (int i = 0; i < n; i++) a[k][i] = a[k][i] * s[0];
    }
#pragma endscop
}

/* Strips of j would part the rows that are summed: parts are those of one row of r. */
void sums_inside(int few, int n, T a[n][n], T r[few][n])
{
#pragma scop
    for (int k = 0; k < few; k++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) r[k][j] = r[k][j] + a[i][j];
        for (int l = 0; l < n; l++) a[l][0] = a[l][0] + r[k][l];
    }
#pragma endscop
}

/* The second nest is taken in the strips of the first: its data stay with their thread. */
void along(int few, int n, T a[n][n], T r[n])
{
#pragma scop
    for (int k = 0; k < few; k++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) r[j] = r[j] + a[i][j];
        for (int l = 0; l < n; l++)
            for (int m = 0; m < n; m++) a[l][m] = a[l][m] - r[m];
    }
#pragma endscop
}

/* A copy that is not worth meeting for is shared all the same: threads meet after it anyway. */
void short_copy(int n, int m, T v[m], T w[m], T d)
{
#pragma scop
    for (int t = 0; t < n; t++) {
        for (int k = 0; k < 4; k++)
            for (int i = 1; i < m - 1; i++) {
                w[i] = v[i - 1] * d + v[i] * d * d + v[i + 1] * d;
                w[i] = w[i] + v[i] * d;
            }
        for (int j = 0; j < m; j++) v[j] = w[j];
    }
#pragma endscop
}

void few_planes(int n, T a[3][n][n])
{
#pragma scop
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) a[c][i][j] = a[c][i][j] + 1;
#pragma endscop
}

/* One scalar of two loops: each thread has copies for both. */
void shared_scalar(int n, T a[n][n], T b[n][n])
{
    T x;
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            x = a[i][j];
            a[i][j] = x * x + x;
        }
    for (int k = 0; k < n; k++)
        for (int l = 0; l < n; l++) {
            x = b[k][l];
            b[k][l] = x * x + x;
        }
#pragma endscop
}

void scan(int n, T x[n])
{
#pragma scop
    for (int i = 1; i < n; i++) x[i] = x[i] + x[i - 1];
#pragma endscop
}

void short_inside(int n, T x[8], T y[n])
{
#pragma scop
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 8; i++) x[i] = x[i] + y[k];
#pragma endscop
}

/* Every thread counts for itself: scalars have copies, and several statements may count. */
void counts(int n, int x[n], int y[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            int d = x[i] - x[j];
            y[i] = y[i] + d;
            y[j] = y[j] + d * d;
        }
#pragma endscop
}

void few_sweeps(int n, T a[n][n])
{
#pragma scop
    for (int t = 0; t < n; t++)
        for (int c = 0; c < 2; c++)
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) a[i][j] = a[i][j] + a[i][j] * a[i][j];
#pragma endscop
}

/* A sum of fixed order waits for what is computed in any order. */
void parted_sum(int n, T a[n][n], T s[1], T y[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        T x = 0;
        for (int j = 0; j < n; j++) x = x + a[i][j];
        y[i] = 2 * x;
        s[0] = s[0] + x;
    }
#pragma endscop
}

/* `saved` cannot have an element for each iteration: the steps of i are two apart. */
void gaps(int n, float a[n + 1][n + 1], float b[n + 1])
{
#pragma scop
    for (int i = 0; i < n; i += 2) {
        float saved = b[i];
        b[n - i] = saved;
        b[i] = saved;
        for (int j = 0; j < n; j++) a[i][i] = a[i][i];
    }
#pragma endscop
}

void there_and_back(int steps, int n, T u[n], T v[n])
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < n; i++) v[i] = u[i - 1];
        for (int j = 1; j < n; j++) u[j] = 2 * v[j];
    }
#pragma endscop
}

/* Sums of fixed order over long rows of points: a thread has some of the sums. */
void moments(int points, int n, T w[points], T x[points][n], T s[n][n])
{
#pragma scop
    for (int g = 0; g < points; g++)
        for (int b = 0; b < n; b++)
            for (int c = 0; c < n; c++) s[b][c] += w[g] * x[g][b] * x[g][c];
#pragma endscop
}

/* The second part of a loop reads again what the first has read: rows, or numbers. */
void descent(int e, int n, int d, T x[n][d], T y[n], T w[d], T g[d])
{
#pragma scop
    for (int t = 0; t < e; t++) {
        for (int j = 0; j < d; j++) g[j] = 0;
        for (int i = 0; i < n; i++) {
            T z = 0;
            for (int j = 0; j < d; j++) z += x[i][j] * w[j];
            T r = z - y[i];
            for (int j = 0; j < d; j++) g[j] += r * x[i][j];
        }
        for (int j = 0; j < d; j++) w[j] = w[j] - g[j];
    }
#pragma endscop
}

void longest(int n, int d, T x[n][d], T top[n])
{
#pragma scop
    T most = 0;
    for (int i = 0; i < n; i++) {
        T s = 0;
        for (int j = 0; j < d; j++) s += x[i][j] * x[i][j];
        most = s > most ? s : most - 1;
        top[i] = most;
    }
#pragma endscop
}

/* Terms are scattered along a diagonal, over a picture, or to where no iteration moves. */
void scatter(int n, int m, T x[n], T h[m], T y[3 * n + m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) y[i + j] = y[i + j] + x[i] * h[j];
#pragma endscop
}

void scatter_back(int n, int m, T x[n], T h[m], T y[3 * n + m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            y[n + m - 1 - i - j] = y[n + m - 1 - i - j] + x[i] * h[j];
#pragma endscop
}

void scatter_apart(int n, int m, T x[n], T h[m], T y[3 * n + m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) y[2 * i + j] = y[2 * i + j] + x[i] * h[j];
#pragma endscop
}

void spread(int n, int w, int m, T x[n][w], T h[m][m], T y[n + m][w + m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < w; j++)
            for (int p = 0; p < m; p++)
                for (int q = 0; q < m; q++) y[i + p][j + q] = y[i + p][j + q] + x[i][j] * h[p][q];
#pragma endscop
}

void column_squares(int n, int m, int x[n][m], int y[m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) y[j] = y[j] + x[i][j] * x[i][j];
#pragma endscop
}

/* Every iteration of v reads what iteration u has left. */
void relax(int n, T w[n][n], T d[n])
{
#pragma scop
    for (int u = 0; u < n; u++)
        for (int v = 0; v < n; v++) d[v] = d[u] + w[u][v] < d[v] ? d[u] + w[u][v] : d[v];
#pragma endscop
}

void routes(int n, T dist[n][n], int pred[n][n])
{
#pragma scop
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                if (dist[i][k] + dist[k][j] < dist[i][j]) {
                    dist[i][j] = dist[i][k] + dist[k][j];
                    pred[i][j] = pred[k][j];
                }
#pragma endscop
}

/* No iteration of j is independent of all others, so none of its parts is. */
void chained_rows(int n, T a[n][n])
{
#pragma scop
    for (int k = 1; k < n; k++)
        for (int j = 1; j < n; j++) a[k][j] = a[k][j - 1] + a[k][k];
#pragma endscop
}

/* Dependences over distances that only a call knows. */
void partitions(int n, T t[n])
{
#pragma scop
    for (int c = 1; c < n; c++)
        for (int s = c; s < n; s++) t[s] += t[s - c];
#pragma endscop
}

void lagged(int n, int a, int d, T g, T t[n])
{
#pragma scop
    for (int s = a; s < n - a; s++) t[s] = t[s] + g * t[s - d];
#pragma endscop
}

void lagged_back(int n, int a, int d, T g, T t[n])
{
#pragma scop
    for (int s = n - a - 1; s >= a; s--) {
        T x = t[s - d] + g;
        if (x > t[s]) t[s] = x;
    }
#pragma endscop
}

void lagged_both(int n, int a, int d, T g, T t[n])
{
#pragma scop
    for (int s = n - a - 1; s >= a; s--) t[s] = t[s] + g * t[s - d] + t[s + d];
#pragma endscop
}

/* Rows that conditions leave out one by one. */
void skipped(int n, int m, int k, T a[n][k], T b[k][m], T c[n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int p = 0; p < k; p++)
            if (a[i][p] > 0)
                for (int j = 0; j < m; j++) c[i][j] += a[i][p] * b[p][j];
#pragma endscop
}

/* Copies of rows that are not next to the diagonal would each have to ask whether they are. */
void elimination(int n, T a[n][n])
{
    T factor;
#pragma scop
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            if (i != k) {
                factor = a[i][k];
                a[i][k] = 0;
                for (int j = 0; j < n; j++) a[i][j] -= factor * a[k][j];
            }
#pragma endscop
}

/* Rows of products and their sums, each from the row before. */
void running_products(int n, int m, T z[n][m], T x[m], T y[m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            x[j] *= 1 + z[i][j];
            y[j] += x[j];
        }
#pragma endscop
}
