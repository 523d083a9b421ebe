/* Prices of options: one function of scalars with exp, log and sqrt. */
#include <math.h>
#define INV_SQRT_2PI 0.39894228040143270286f

static float cndf(float x)
{
    int sign = 0;
    if (x < 0.0f) {
        x = -x;
        sign = 1;
    }
    float k = 1.0f / (1.0f + 0.2316419f * x);
    float poly = k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f
        + k * (-1.821255978f + k * 1.330274429f))));
    float value = 1.0f - INV_SQRT_2PI * expf(-0.5f * x * x) * poly;
    if (sign)
        value = 1.0f - value;
    return value;
}

static float price(float s, float k, float r, float v, float t, int is_put)
{
    float d1 = (logf(s / k) + (r + 0.5f * v * v) * t) / (v * sqrtf(t));
    float d2 = d1 - v * sqrtf(t);
    float future = k * expf(-r * t);
    float call = s * cndf(d1) - future * cndf(d2);
    return is_put ? call - s + future : call;
}

void blackscholes(int n, float *s, float *k, float r, float *v, float *t, int *put, float *out)
{
#pragma scop
    for (int i = 0; i < n; i++)
        out[i] = price(s[i], k[i], r, v[i], t[i], put[i]);
#pragma endscop
}
