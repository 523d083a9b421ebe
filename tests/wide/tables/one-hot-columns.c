/* A column of codes as one column of 0 and 1 per code, and how often each code occurs. */
void kernel_one_hot_columns(int n, int codes, int code[n], float hot[n][codes], int times[codes])
{
    int i, k;

#pragma scop
    for (k = 0; k < codes; k++)
        times[k] = 0;
    for (i = 0; i < n; i++)
        for (k = 0; k < codes; k++) {
            hot[i][k] = code[i] == k ? 1.0f : 0.0f;
            times[k] += code[i] == k;
        }
#pragma endscop
}
