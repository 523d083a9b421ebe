/* A recursive smoothing filter: along each row forwards and backwards, then along each column. */
#ifndef EXTENT_w
#define EXTENT_w 4096
#define EXTENT_h 2160
#endif
#ifndef DATA
#define DATA float
#endif
#include "kernel.h"

void kernel_deriche(int w, int h, DATA alpha, DATA MATRIX(image, w, h), DATA MATRIX(smooth, w, h),
                    DATA MATRIX(ahead, w, h), DATA MATRIX(back, w, h))
{
    int i, j;
    DATA x0, x1, x2, y1, y2;
    DATA scale;
    DATA a1, a2, a3, a4, a5, a6, a7, a8;
    DATA b1, b2, c1, c2;

#pragma scop
    scale = (REAL(1.0) - EXP(-alpha)) * (REAL(1.0) - EXP(-alpha))
            / (REAL(1.0) + REAL(2.0) * alpha * EXP(-alpha) - EXP(REAL(-2.0) * alpha));
    a1 = a5 = scale;
    a2 = a6 = scale * EXP(-alpha) * (alpha - REAL(1.0));
    a3 = a7 = scale * EXP(-alpha) * (alpha + REAL(1.0));
    a4 = a8 = -scale * EXP(REAL(-2.0) * alpha);
    b1 = POW(REAL(2.0), -alpha);
    b2 = -EXP(REAL(-2.0) * alpha);
    c1 = c2 = 1;

    for (i = 0; i < BOUND(w); i++) {
        y1 = REAL(0.0);
        y2 = REAL(0.0);
        x1 = REAL(0.0);
        for (j = 0; j < BOUND(h); j++) {
            ahead[i][j] = a1 * image[i][j] + a2 * x1 + b1 * y1 + b2 * y2;
            x1 = image[i][j];
            y2 = y1;
            y1 = ahead[i][j];
        }
    }
    for (i = 0; i < BOUND(w); i++) {
        y1 = REAL(0.0);
        y2 = REAL(0.0);
        x1 = REAL(0.0);
        x2 = REAL(0.0);
        for (j = BOUND(h) - 1; j >= 0; j--) {
            back[i][j] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2;
            x2 = x1;
            x1 = image[i][j];
            y2 = y1;
            y1 = back[i][j];
        }
    }
    for (i = 0; i < BOUND(w); i++)
        for (j = 0; j < BOUND(h); j++)
            smooth[i][j] = c1 * (ahead[i][j] + back[i][j]);

    for (j = 0; j < BOUND(h); j++) {
        x0 = REAL(0.0);
        y1 = REAL(0.0);
        y2 = REAL(0.0);
        for (i = 0; i < BOUND(w); i++) {
            ahead[i][j] = a5 * smooth[i][j] + a6 * x0 + b1 * y1 + b2 * y2;
            x0 = smooth[i][j];
            y2 = y1;
            y1 = ahead[i][j];
        }
    }
    for (j = 0; j < BOUND(h); j++) {
        x1 = REAL(0.0);
        x2 = REAL(0.0);
        y1 = REAL(0.0);
        y2 = REAL(0.0);
        for (i = BOUND(w) - 1; i >= 0; i--) {
            back[i][j] = a7 * x1 + a8 * x2 + b1 * y1 + b2 * y2;
            x2 = x1;
            x1 = smooth[i][j];
            y2 = y1;
            y1 = back[i][j];
        }
    }
    for (i = 0; i < BOUND(w); i++)
        for (j = 0; j < BOUND(h); j++)
            smooth[i][j] = c2 * (ahead[i][j] + back[i][j]);
#pragma endscop
}
