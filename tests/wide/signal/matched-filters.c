/* Complex echoes against a bank of templates: the highest response of each template and its
   delay. */
void kernel_matched_filters(int bank, int taps, int n, float tr[bank][taps], float ti[bank][taps],
                            float xr[n], float xi[n], float peak[bank], int delay[bank])
{
#pragma scop
    for (int b = 0; b < bank; b++) {
        peak[b] = -1.0f;
        delay[b] = -1;
        for (int d = 0; d <= n - taps; d++) {
            float re = 0.0f, im = 0.0f;
            for (int k = 0; k < taps; k++) {
                re += tr[b][k] * xr[d + k] + ti[b][k] * xi[d + k];
                im += tr[b][k] * xi[d + k] - ti[b][k] * xr[d + k];
            }
            float p = re * re + im * im;
            if (p > peak[b]) {
                peak[b] = p;
                delay[b] = d;
            }
        }
    }
#pragma endscop
}
