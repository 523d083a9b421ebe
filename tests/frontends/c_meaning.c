/* What C means: each function also runs compiled, nothing optimised, and must do the same.

   Arrays are filled by their types, n is N, m is 7. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#define N 11

void upwards(int n, double a[N])
{
#pragma scop
    for (int i = 0; i < n; i++) a[i] = 2 * a[i] + i;
#pragma endscop
}

void downwards(int n, double a[N])
{
#pragma scop
    for (int i = n - 2; i >= 0; i--) a[i] += a[i + 1];
#pragma endscop
}

void downwards_strict(int n, double a[N])
{
#pragma scop
    for (int i = n - 1; i > 0; --i) a[i] -= a[i - 1];
#pragma endscop
}

void steps(int n, double a[N])
{
#pragma scop
    for (int i = 1; i < n; i += 3) a[i] = -a[i];
#pragma endscop
}

void steps_down(int n, double a[N])
{
#pragma scop
    for (int i = n - 1; i >= 2; i -= 2) a[i] = a[i - 2] / 3;
#pragma endscop
}

void step_written_out(int n, double a[N])
{
#pragma scop
    for (int i = 0; i <= n - 2; i = 2 + i) a[i] = i;
#pragma endscop
}

void bound_on_the_left(int n, double a[N])
{
#pragma scop
    for (int i = 0; n > i; i++) a[i] *= 3;
#pragma endscop
}

void bound_with_sums(int n, double a[N])
{
#pragma scop
    for (int i = 0; i + 2 < n - 1; i++) a[i] += a[i + 2];
#pragma endscop
}

void bound_times_two(int n, double a[N])
{
#pragma scop
    for (int i = 0; 2 * i < n; i++) a[2 * i] = i;
#pragma endscop
}

void bound_times_three(int n, double a[N])
{
#pragma scop
    for (int i = n; 3 * i >= 7; i--) a[i - 1] = i;
#pragma endscop
}

void two_bounds(int n, int m, double a[N])
{
#pragma scop
    for (int i = 0; i < n && i < m; i++) a[i] = 1 + i;
#pragma endscop
}

void not_equal(int n, double a[n])
{
#pragma scop
    for (int i = 0; i != n; i++) a[i] = i;
#pragma endscop
}

void outside_counters(int n, double A[N][N])
{
    int i, j;
#pragma scop
    for (i = 0; i < n; i++) {
        for (j = i + 1; j < n; j++) A[i][j] = A[j][i];
        A[i][i] = i;
    }
#pragma endscop
}

void counter_after_its_loop(int n, double a[N])
{
    int i;
#pragma scop
    for (i = 0; i < n - 1; i++) a[i] = 0;
    a[i] = 7;
    for (i = n - 1; i > 3; i -= 2) a[i] += i;
    a[0] = i;
#pragma endscop
}

void counter_goes_on(int n, double a[N])
{
    int i;
#pragma scop
    i = 2;
    for (; i < n; i++) a[i] = i;
    i = i - 1;
    a[i] = -1;
#pragma endscop
}

void triangle(int n, double A[N][N], double x[N])
{
#pragma scop
    for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) x[i] += A[i][j] * x[j];
#pragma endscop
}

void siblings(int n, double a[N], double b[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i] = b[i];
        for (int j = 0; j < i; j++) a[j] += b[i];
        b[i] = a[i];
    }
    a[0] = 1;
    for (int i = 1; i < n; i++) a[i] *= a[i - 1];
#pragma endscop
}

void compound(int n, double a[N], int c[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i] += 1;
        a[i] -= .5;
        a[i] *= 2;
        a[i] /= 3;
        c[i] %= 7;
        c[i] |= 8;
        c[i] &= 13;
        c[i] ^= 3;
        c[i] <<= 2;
        c[i] >>= 1;
    }
#pragma endscop
}

void chained(int n, double a[N], float b[N], int c[N])
{
#pragma scop
    for (int i = 0; i < n; i++) a[i] = b[i] = c[i] = a[i] * 1.7;
#pragma endscop
}

void steps_on_data(int n, double a[N], unsigned char c[N], int d[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i]++;
        c[i]--;
        ++d[i];
        --d[i / 2];
    }
#pragma endscop
}

void commas(int n, double a[N])
{
#pragma scop
    for (int i = 0; i < n; i++) a[i] = 1, a[i] += i;
#pragma endscop
}

void scalars(int n, double a[N], double b[N])
{
    double s, t = 1;
#pragma scop
    s = 0;
    for (int i = 0; i < n; i++) {
        s += a[i];
        t = t * 1.5 - s;
        b[i] = s + t;
    }
#pragma endscop
}

void inner_scalars(int n, double a[N], int c[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        double t = a[i];
        const int k = i / 2;
        int w = c[k];
        a[k] = t * w + k;
    }
#pragma endscop
}

void forwarded(int n, double a[N])
{
    int last = n - 1;
#pragma scop
    for (int i = 0; i < n; i++) {
        int j = n - 1 - i;
        if (i < j) {
            double t = a[i];
            a[i] = a[j];
            a[j] = t + last;
        }
    }
#pragma endscop
}

void inner_array(int n, double a[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        double t[3] = {0};
        for (int k = 0; k < 3; k++) t[k] += k * a[i];
        a[i] = t[0] + t[1] - t[2];
    }
#pragma endscop
}

void local_array(int n, double a[N])
{
    double z[N];
    int i;
#pragma scop
    for (i = 0; i < n; i++) z[n - 1 - i] = a[i];
    for (i = 0; i < n; i++) a[i] = z[i] + 1;
#pragma endscop
}

void literals(int n, double a[N], float b[N], long c[N])
{
#pragma scop
    a[0] = 0x1F + 010 + 'A' + '\n' + '\x21' + '\7';
    a[1] = 1e-3 + .5 + 2. + 0x1.8p3;
    b[0] = 0.1f;
    b[1] = 0.1;
    c[0] = 4294967295;
    c[1] = 0xFFFFFFFF;
    c[2] = 0xFFFFFFFFu + 1;
    c[3] = 2147483648;
    c[4] = -1u;
    c[5] = 10L * 5000000000;
    c[6] = 1ull << 40;
    c[7] = ~0;
    c[8] = 0b101;
    a[2] = 1 / 2 + 1 / 2.0;
    c[9] = -7 / 2 * 10 + -7 % 2;
#pragma endscop
}

void integer_division(int n, int c[N], int d[N], int e[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        d[i] = c[i] / 3;
        e[i] = c[i] % 3;
        d[i] += c[i] / -4;
        e[i] += c[i] % -4;
        d[i] -= c[i] / (c[i] * 2 + 1);
        e[i] ^= c[i] % (c[i] * 2 + 1);
    }
#pragma endscop
}

void unsigned_division(int n, unsigned c[N], unsigned d[N], int e[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        d[i] = c[i] / 7 + c[i] % 5;
        d[i] += e[i] / 3u;
        e[i] = (e[i] - 5) % 4u;
    }
#pragma endscop
}

void index_division(int n, double a[N])
{
#pragma scop
    for (int i = 0; i < n; i++) a[i / 2] += a[i % 3] + i / 2 + (i - 5) / 3 + (i - 5) % 3 + (5 -
        i) / -2 + (i - 9) % -4;
#pragma endscop
}

void index_division_below_zero(int n, double a[N])
{
#pragma scop
    for (int i = -7; i < n; i++) {
        a[i / 3 + 3] += 1;
        a[i % 4 + 4] += i;
    }
#pragma endscop
}

void index_bits(int n, int c[N], double a[N])
{
#pragma scop
    for (int i = -3; i < n; i++) {
        a[i & 3] += 1;
        a[(i + 4) >> 1] -= i;
        c[i & 7] += i | 5;
        c[(i + 3) << 1 & 7] ^= ~i;
    }
#pragma endscop
}

void promotions(int n, signed char a[N], unsigned char b[N], short c[N], unsigned short d[N], int e[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        e[i] = a[i] * b[i] + c[i] - d[i];
        a[i] = b[i] + 200;
        b[i] = -a[i];
        c[i] = d[i] * 3;
        d[i] = ~c[i];
    }
#pragma endscop
}

void plain_char(int n, char a[N], int e[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        e[i] = a[i] < 0;
        a[i] = a[i] * 2 + 'z';
        e[i] += a[i];
    }
#pragma endscop
}

void mixed_signs(int n, int a[N], unsigned b[N], long c[N], unsigned long d[N], double x[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        c[i] = a[i] + b[i];
        d[i] = a[i] - b[i];
        x[i] = a[i] > b[i];
        x[i] += -1 < b[i];
        x[i] += c[i] < d[i];
        x[i] -= (a[i] < c[i]) + b[i] / 2;
        a[i] = -b[i];
    }
#pragma endscop
}

void mixed_floats(int n, int a[N], float b[N], double c[N], long d[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        b[i] = b[i] * a[i] + 0.1;
        c[i] = b[i] / 3 + d[i];
        c[i] -= b[i] * 0.1f;
        a[i] = c[i];
        d[i] = b[i] * 2.5f;
        c[i] += 1 / 3 + 1.f / 3;
    }
#pragma endscop
}

void casts(int n, double a[N], int c[N], float b[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i] = (double)c[i] / n + (float)a[i] + (int)a[i];
        c[i] = (char)c[i] + (unsigned char)(c[i] * 7) + (short)(c[i] * 999) + (_Bool)a[i];
        b[i] = (float)1 / 3 + (int)2.9 + (long)c[i] * 3 + (double)(i * i) / (n + 1);
    }
#pragma endscop
}

void booleans(int n, _Bool p[N], double a[N], int c[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        p[i] = a[i];
        c[i] = p[i] + p[i] + (a[i] > 1);
        p[i] = c[i] & 2;
        c[i] += !p[i] + !!a[i] + !c[i];
    }
#pragma endscop
}

void values_of_conditions(int n, double a[N], double b[N], int c[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        c[i] = a[i] < b[i] && c[i] != 3 || !(b[i] >= 2);
        c[i] += (a[i] == b[i]) + (a[i] <= b[i] & c[i] > 0) + (i > 3) + (i > 2 && i < n - 2);
    }
#pragma endscop
}

void choices(int n, double a[N], int c[N], float b[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i] = a[i] > 1 ? a[i] : 1;
        b[i] = c[i] ? c[i] : b[i];
        c[i] = a[i] > b[i] ? 1 : a[i] < b[i] ? -1 : 0;
        a[i] += c[i] < 0 ? 1u : -1;
        c[i] = (c[i] + c[i / 2]) == 2 ? 1 : 0;
    }
#pragma endscop
}

void guarded_choices(int n, double a[N], double b[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        b[i] = i > 0 ? a[i - 1] : 0;
        b[i] += i < n - 1 && a[i] > 1 ? a[i + 1] : -1;
        b[i] -= i == 0 || a[i - 1] < 2;
        b[i] *= !(i > 1) ? 2 : a[i - 2] + 1;
        b[i] += a[i] > 0 && i > 2 ? a[i - 3] : .25;
    }
#pragma endscop
}

void branches(int n, int m, double A[N][N])
{
#pragma scop
    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) if (i == j) A[i][j] = 1;
    else if (i < j && !(j == i + 1 || j > 2 * i)) A[i][j] += 2;
    else {
        A[i][j] = -1;
        if (i != 3) A[i][j] -= j % 2;
    }
    if (n > m) A[0][0] = 99;
    else A[1][1] = 98;
#pragma endscop
}

void constant_branches(int n, double a[N])
{
#pragma scop
    if (0) a[99] = 1;
    if (1 && n) a[0] = 5;
    if (sizeof(double) == 8) a[1] = 8;
    else a[2] = 8;
#pragma endscop
}

void extremes(int n, int m, double a[N])
{
#pragma scop
    for (int i = 0; i < (n < m ? n : m); i++) a[i] += 1;
    for (int i = (m - 3 > 0 ? m - 3 : 0); i <= (n - 1 <= 6 ? n - 1 : 6); i++) a[i] *= 2;
    for (int i = 0; i < n; i++) a[i >= 4 ? 4 : i] += i;
    for (int i = -5; i < 6; i++) a[i < 0 ? -i : i] += a[abs(i)] + 1;
#pragma endscop
}

void tiles(int n, double a[N])
{
#pragma scop
    for (int t = 0; t < (n + 3) / 4; t++) for (int i = 4 * t; i < (4 * t + 4 < n ? 4 * t + 4 :
        n); i++) a[i] = a[i] * t + i % 4;
#pragma endscop
}

void functions(int n, double a[N], float b[N], int c[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i] = sqrt(fabs(a[i])) + exp(a[i] / 9) + pow(2, i) + fmin(a[i], i) * fmax(3, a[i]) +
            floor(a[i]) - ceil(a[i] / 2) + trunc(a[i] * -1.5);
        b[i] = sqrtf(b[i] * b[i]) + expf(-1) + powf(b[i], 2) + fabsf(b[i]) + sinf(b[i]);
        a[i] += log(1 + i) + log2(2 + i) + log10(3 + i) + sin(a[i]) + cos(b[i]) + tanh(a[i]);
        c[i] = abs(c[i]) + abs(i - 5) + labs(c[i] - 100L) + floor(b[i]);
    }
#pragma endscop
}

void not_a_number(int n, double a[N])
{
#pragma scop
    a[0] = 0;
    a[1] = a[0] / a[0];
    a[2] = fmin(a[1], 3);
    a[3] = fmax(2, a[1]);
    a[4] = a[1] == a[1];
    a[5] = a[1] != a[1];
    a[6] = a[1] > 0 ? 1 : 2;
    a[7] = !a[1];
    a[8] = fmin(a[1], a[1]);
    a[1] = 0;
    a[8] = a[8] != a[8];
#pragma endscop
}

void shadows(int n, double a[N])
{
    int i = 3;
#pragma scop
    a[i] = 50;
    for (int i = 0; i < 3; i++) {
        a[i] = i;
        {
            double i = .5;
            a[4] += i;
        }
    }
    for (int i = 5; i < 7; i++) a[i] = i;
    a[i + 1] = i;
#pragma endscop
}

void long_counters(long n, double a[N])
{
#pragma scop
    for (long i = 0; i < n; i++) a[i] = i;
    for (long long i = n - 1; i >= 0; i -= 4) a[i]++;
#pragma endscop
}

void unsigned_counters(unsigned n, double a[N], int c[N])
{
#pragma scop
    for (unsigned i = 0; i < n; i++) {
        a[i] = i - 1;
        c[i] = i - 2 > 5 ? i : -i;
    }
    for (unsigned i = n - 1; i > 0; i--) a[i] += a[i - 1];
    for (size_t i = 1; i + 1 < n; i += 2) a[i / 2] -= a[i % 3] + (i - 1) / 2;
    for (unsigned i = 0; i < n; i++) if (i >= 2) c[i - 2]++;
#pragma endscop
}

void enumerators(int n, double a[N])
{
    enum { FIRST = 2, SECOND, LAST = FIRST * 4 };
    const int half = LAST / 2;
#pragma scop
    a[SECOND] = LAST;
    for (int i = FIRST; i < LAST; i++) a[i] += half * i;
#pragma endscop
}

void pointers_as_arrays(int n, double *restrict a, double (*B)[N])
{
#pragma scop
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) B[i][j] = a[i] - a[j];
#pragma endscop
}

void symbolic_extents(int n, int m, double A[restrict n][m], double b[static const n + m])
{
#pragma scop
    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) b[i + j] += A[i][j];
#pragma endscop
}

void big_sum(int n, double a[N])
{
#pragma scop
    a[0] = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7] + a[8] + a[9] + a[10] + a[0] +
        a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7] + a[8] + a[9] + a[10] + a[0] + a[1] + a[2]
            + a[3] + a[4] + a[5] + a[6] + a[7] + a[8] + a[9] + a[10] + a[0] + a[1] + a[2] + a[3]
                + a[4] + a[5] + a[6] + a[7] + a[8] + a[9] + a[10] + a[0] + a[1] + a[2] + a[3] +
                    a[4] + a[5] + a[6] + a[7] + a[8] + a[9] + a[10] + a[0] + a[1] + a[2] + a[3] +
                        a[4] + a[5] + a[6] + a[7] + a[8] + a[9] + a[10] + a[0] + a[1] + a[2] +
                            a[3] + a[4] + a[5] + a[6] + a[7] + a[8] + a[9] + a[10] + a[0] + a[1]
                                + a[2] + a[3] + a[4] + a[5] + a[6] + a[7] + a[8] + a[9] + a[10] +
                                    a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7] + a[8]
                                        + a[9] + a[10] + a[0] + a[1] + a[2] + a[3] + a[4] + a[5]
                                            + a[6] + a[7] + a[8] + a[9] + a[10] + a[0] + a[1] +
                                                a[2] + a[3] + a[4] + a[5] + a[6] + a[7] + a[8] +
                                                    a[9];
#pragma endscop
}

void long_division(long n, long c[N], unsigned long d[N], short s[N], long long e[N])
{
#pragma scop
    for (long i = 0; i < n; i++) {
        e[i] = c[i] / 7 - c[i] % 7 * 10 + s[i] / 4 + s[i] % -3;
        d[i] = d[i] / 3 + (d[i] - 200) % 11 + c[i] / 2ul;
        c[i] = (c[i] - 50) / (s[i] * 2 + 1) + (c[i] + i) % (s[i] * 2 + 1);
    }
#pragma endscop
}

void wide_constants(int n, unsigned long d[N], double a[N], long c[N])
{
#pragma scop
    d[0] = 18446744073709551615UL;
    d[1] = 0xFFFFFFFFFFFFFFFF / 3 + 1;
    d[2] = -1;
    d[3] = 1UL << 63;
    d[4] = ~0ul - 5;
    a[0] = 18446744073709551615UL;
    a[1] = 18446744073709551615UL > 1;
    a[2] = -1 < 0u;
    a[3] = -1 < 0l;
    a[4] = 18446744073709551615u / 2;
    a[5] = 5ul / -5;
    a[6] = 5 % -3u + 7 / -2u;
    a[7] = (n + 9ul) / -3 + (n + 9ul) % -3;
    c[0] = 18446744073709551615u;
    c[1] = 4294967295u + 1;
    c[2] = 4294967295u + 1l;
    c[3] = -2147483647 - 1;
    for (int i = 5; i < n; i++)
        d[i] = d[i] + 9223372036854775808UL - i;
#pragma endscop
}

void data_shifts(int n, int c[N], unsigned u[N], signed char s[N], long l[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        c[i] = c[i] >> 3 << 2;
        u[i] = (u[i] - 60) >> 31 | u[i] << 5;
        l[i] = (c[i] >> 31) + (l[i] >> 63) + (1L << 40);
        s[i] = s[i] << 1 ^ s[i] >> 2;
    }
#pragma endscop
}

void indices_as_unsigned(int n, double a[N], unsigned u[N], long c[N])
{
#pragma scop
    for (int i = -3; i < n - 3; i++) {
        a[i + 3] = i < 2u;
        a[i + 3] += (i - 1) / 2u;
        a[i + 3] += (unsigned)i % 5;
        c[i + 3] = (long)(unsigned)i + (unsigned char)i + (short)(i * 70000);
        u[i + 3] = i * i - 7u;
        c[i + 3] -= i > 4u ? i : -1;
        a[i + 3] -= (i & 0xFFu) + (i >> 1) + (double)(i - 1u);
    }
#pragma endscop
}

void dangling_else(int n, double a[N])
{
#pragma scop
    for (int i = 0; i < n; i++)
        if (i > 2)
            if (i > 4)
                a[i] = 1;
            else
                a[i] = 2;
#pragma endscop
}

void characters(int n, double a[N], char c[N])
{
#pragma scop
    for (int i = 'a'; i <= 'f'; i++)
        a[i - 'a'] = i;
    for (int i = 0; i < n; i++)
        c[i] = c[i] >= 'a' && c[i] <= 'z' ? c[i] - 'a' + 'A' : '\377';
#pragma endscop
}

void remainders_below_zero(int n, double a[N])
{
#pragma scop
    for (int i = -6; i < 6; i++) {
        if (i % 2 == 0)
            a[(i + 6) / 2] += i;
        if (i % 3 == -1)
            a[(i + 6) / 3] *= 2;
        else if (i / 2 == 0)
            a[-i + 6] -= 1;
        a[i % 4 < 0 ? -(i % 4) : i % 4] += .5;
    }
#pragma endscop
}

void mixed_choices(int n, double a[N], int c[N], unsigned char b[N])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i] = i > 2 ? 1 : 2.5;
        c[i] = (a[i] > 1 ? c[i] : b[i]) / 2;
        b[i] = c[i] > 0 ? -1 : 300;
        a[i] += (c[i] && b[i]) + (c[i] || 0) * 2 + (1 && a[i]) + (b[i] ? i : 2.f);
        c[i] += (i > 3 ? c[i / 2] : i) + (n > 3 ? 1 : c[99]);
    }
#pragma endscop
}

void reversed(int n, double a[N], double B[N][N])
{
#pragma scop
    for (int i = 0; i < n; i++)
        a[i] = a[n - 1 - i] + B[n - 1 - i][i] - B[i][n - i - 1];
    for (int i = 1; i < n; i++)
        for (int j = i - 1; j >= 0; j--)
            B[i][j] = B[j][i] + B[i - 1][j] * a[i - j];
#pragma endscop
}

#define SUM3(x, i) ((x)[(i) - 1] + (x)[i] + (x)[(i) + 1])
#define EACH(i, n) for (int i = 1; i < (n) - 1; ++i)
#define CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))

void macros(int n, double a[N], double b[N])
{
#pragma scop
    EACH (i, n)
        b[i] = SUM3 (a, i) / 3;
    EACH(i, n) {
        a[CLAMP(i + 2, 1, N - 1)] += b[i];
        a[i] = CLAMP(a[i], 0.,
                     2.5);
    }
#pragma endscop
}

#define SWAP(x, y) do { double t = x; x = y; y = t; } while (0)

void swaps(int n, double a[N])
{
#pragma scop
    for (int i = 0; i < n - 1; i += 2)
        SWAP(a[i], a[i + 1]);
#pragma endscop
}

void pragmas_of_others(int n, double a[N])
{
#pragma scop
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
#pragma GCC ivdep
        for (int j = 0; j < i; j++)
            a[j] += i;
        ;
    }
    {
        (void)n;
    }
#pragma endscop
}

/* Calls of functions of this file. */
static int half_of(int x) { return x / 2; }
static unsigned char wrapped(unsigned char x) { return x + 250; }
static float third_of(float x) { return x / 3; }
static double between(double x, double lo, double hi)
{
    if (x < lo)
        return lo;
    if (x > hi)
        return hi;
    return x;
}
static double shadowing(double i)
{
    double n = i + 1;
    return n * i;
}
static _Bool is_large(double x) { return x > 1; }
static int both_of(_Bool p, int q) { return p && q; }
static double polynomial(double x)
{
    double s = 0;
    for (int k = 0; k < 4; k++)
        s = s * x + k;
    return s;
}
static unsigned long mixed(unsigned long x)
{
    x ^= x >> 3;
    x *= 2654435761UL;
    return x % 1000;
}
static double product_at(const double *x, const double y[], int k) { return x[k] * y[k + 1]; }
static double corner(int m, double a[][m], int i, int j) { return i > 0 && j > 0 ? a[i - 1][j - 1] : 0; }
static double steps_of(double x)
{
    double y = x, z = y + 1;
    y += z, z *= 2;
    if (z > 3) {
        double t = z;
        z = y;
        y = t;
    } else
        y++;
    return (y - z);
}
static short narrow(long x) { return x; }
static double nested(double x) { return between(steps_of(x), third_of(x), half_of(x) + 7); }

void inlined_numbers(int n, double a[n], double b[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        a[i] = half_of(b[i]) + half_of(3.9) + half_of(i) + third_of(b[i]) + shadowing(b[i])
            + shadowing(i) + narrow(70000) + narrow(i - 3);
#pragma endscop
}

void inlined_branches(int n, double a[n], double b[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i] = between(b[i], 0, 1.5) + between(between(b[i], 1, 2), 0.5, 1.7) + polynomial(b[i]);
        b[i] = is_large(b[i]) ? 1 : both_of(2, 3) + both_of(is_large(b[i]), i);
        a[i] += steps_of(a[i]) + nested(a[i] * b[i]);
    }
#pragma endscop
}

void inlined_integers(int n, int a[n], unsigned long b[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        a[i] = wrapped(a[i]) + wrapped(300) + wrapped(i);
        b[i] = mixed(b[i]) + mixed(i);
    }
#pragma endscop
}

void inlined_arrays(int n, int m, double a[n][m], double b[n][m], double c[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m - 1; j++)
            b[i][j] = product_at(a[i], &b[i][0], j) + corner(m, a, i, j) + product_at(c + 1, c, i / 3);
#pragma endscop
}

/* Places by cases. */
void piecewise_places(int n, int m, double a[n], double b[n], double c[m])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        int left = i == 0 ? n - 1 : i - 1, right = (i + 1) % n, near = i;
        if (i > 3)
            near = i - 3;
        else if (i == 2)
            near = n - 1;
        a[(i + 1 + n) % n] = b[left] - b[right] + b[near] + (i + 2) / n;
        c[i < m ? i : 2 * m - 1 - i > 0 ? 2 * m - 1 - i : 0] += b[i];
    }
    for (int i = -2; i < n + 2; i++)
        a[i < 0 ? -i : i >= n ? 2 * n - 2 - i : i] += 0.5;
#pragma endscop
}

/* Branches on data. */
void data_branches(int n, int m, double a[n], double b[n], int c[n][m])
{
    double most = -1.0;
    int at = 0;
#pragma scop
    for (int i = 0; i < n; i++) {
        double t = 1;
        if (b[i] > 1) {
            t = b[i];
            if (i > 2 && b[i - 1] < t)
                t -= b[i - 1];
            else
                t = -t;
        } else if (b[i] < -1 || i == 4)
            a[i] = 7;
        if (b[i] != 0)
            for (int j = 0; j < m; j++) {
                int old = c[i][j];
                c[i][j] = old > 3 ? old / 3 : old - 1;
                if (old % 2)
                    c[i][j]++;
            }
        a[i] += t;
    }
    most = b[0];
    at = 0;
    for (int i = 1; i < n; i++)
        if (b[i] > most) {
            most = b[i];
            at = i;
        }
    a[0] = most;
    a[1] = at;
#pragma endscop
}
