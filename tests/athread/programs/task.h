/* The task of all programs here: b[i][j] = 2 * a[i][j], each CPE its own rows. */
enum { N = 128, ROWS = N / 64 };
typedef struct {
    double (*a)[N], (*b)[N];
    double *left; /* what a CPE leaves for the host */
} Task;
