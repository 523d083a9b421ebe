/* How many pairs lie in each shell around another; shells are bounded by squared radii. */
void kernel_radial_distribution(int n, int shells, int edges, int x[n], int y[n], int z[n],
                                int bound[edges], int count[shells])
{
    int i, j, s;

#pragma scop
    for (s = 0; s < shells; s++)
        count[s] = 0;
    for (i = 1; i < n; i++) {
        for (j = 0; j < i; j++) {
            int dx = x[i] - x[j];
            int dy = y[i] - y[j];
            int dz = z[i] - z[j];
            int r2 = dx * dx + dy * dy + dz * dz;
            for (s = 0; s < shells; s++)
                if (r2 >= bound[s] && r2 < bound[s + 1])
                    count[s] += 2;
        }
    }
#pragma endscop
}
