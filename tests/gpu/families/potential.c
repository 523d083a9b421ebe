/* The potential energy of bodies, each pair once, summed for each body and then for all. */
void potential(int n, double x[n], double each[n], double all[1])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        each[i] = 0.0;
        for (int j = i + 1; j < n; j++)
            each[i] += 1.0 / ((x[i] - x[j]) * (x[i] - x[j]) + 0.5);
    }
    all[0] = 0.0;
    for (int i = 0; i < n; i++)
        all[0] += each[i];
#pragma endscop
}
