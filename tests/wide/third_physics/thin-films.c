/* Reflection of a stack of thin films by characteristic matrices, over wavelengths and angles. */
#include <math.h>

#define PI 3.14159265358979323846

void kernel_thin_films(int waves, int angles, int layers, double substrate, double index[layers],
                       double thick[layers], double wave[waves], double reflect[waves][angles],
                       double best[waves])
{
    int w, a, l;

#pragma scop
    for (w = 0; w < waves; w++) {
        best[w] = 1.0;
        for (a = 0; a < angles; a++) {
            double sine = 0.9 * a / angles;
            /* a matrix (m11, i m12; i m21, m22) whose entries are real for films that do not absorb */
            double m11 = 1.0, m12 = 0.0, m21 = 0.0, m22 = 1.0;
            for (l = 0; l < layers; l++) {
                double cosine = sqrt(1.0 - sine / index[l] * (sine / index[l]));
                double phase = 2.0 * PI * index[l] * thick[l] * cosine / wave[w];
                double eta = index[l] * cosine;
                double c = cos(phase), s = sin(phase);
                double n11 = m11 * c - m12 * s * eta;
                double n12 = m11 * s / eta + m12 * c;
                double n21 = m21 * c + m22 * s * eta;
                double n22 = -m21 * s / eta + m22 * c;
                m11 = n11;
                m12 = n12;
                m21 = n21;
                m22 = n22;
            }
            double eta0 = sqrt(1.0 - sine * sine);
            double etas = substrate * sqrt(1.0 - sine / substrate * (sine / substrate));
            double br = m11, bi = m12 * etas, cr = m22 * etas, ci = m21;
            double nr = eta0 * br - cr, ni = eta0 * bi - ci;
            double dr = eta0 * br + cr, di = eta0 * bi + ci;
            reflect[w][a] = (nr * nr + ni * ni) / (dr * dr + di * di);
            if (reflect[w][a] < best[w])
                best[w] = reflect[w][a];
        }
    }
#pragma endscop
}
