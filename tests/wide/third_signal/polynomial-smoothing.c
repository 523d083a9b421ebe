/* Savitzky and Golay: a cubic through nine samples gives the value and the slope; the ends are
   mirrored. Then the peaks, where the slope turns from up to down. */
#include <math.h>

#define HALF 4

static const float value_tap[9] = {-21, 14, 39, 54, 59, 54, 39, 14, -21};
static const float slope_tap[9] = {-4, -3, -2, -1, 0, 1, 2, 3, 4};

void kernel_polynomial_smoothing(int channels, int n, float x[channels][n], float smooth[channels][n],
                                 float slope[channels][n], int peaks[channels], float largest[channels])
{
#pragma scop
    for (int c = 0; c < channels; c++) {
        for (int i = 0; i < n; i++) {
            float v = 0.0f, d = 0.0f;
            for (int k = -HALF; k <= HALF; k++) {
                int at = i + k;
                if (at < 0)
                    at = -at;
                if (at > n - 1)
                    at = 2 * (n - 1) - at;
                v += value_tap[k + HALF] * x[c][at];
                d += slope_tap[k + HALF] * x[c][at];
            }
            smooth[c][i] = v / 231.0f;
            slope[c][i] = d / 60.0f;
        }
        int found = 0;
        float top = 0.0f;
        for (int i = 1; i < n; i++) {
            if (slope[c][i - 1] > 0.0f && slope[c][i] <= 0.0f) {
                found++;
                top = fmaxf(top, smooth[c][i]);
            }
        }
        peaks[c] = found;
        largest[c] = top;
    }
#pragma endscop
}
