// What CUDA C++ knows of numbers beyond C++: half types, intrinsics, atomics.
#pragma once

// -- min and max of CUDA, for every pair of equal types and those that C++ would convert ---------

#define LW_EXTREMES(type)                                                                          \
    static inline type min(type x, type y) { return y < x ? y : x; }                               \
    static inline type max(type x, type y) { return x < y ? y : x; }
LW_EXTREMES(int)
LW_EXTREMES(unsigned)
LW_EXTREMES(long)
LW_EXTREMES(unsigned long)
LW_EXTREMES(long long)
LW_EXTREMES(unsigned long long)
static inline float min(float x, float y) { return fminf(x, y); }
static inline float max(float x, float y) { return fmaxf(x, y); }
static inline double min(double x, double y) { return fmin(x, y); }
static inline double max(double x, double y) { return fmax(x, y); }

// -- bits ----------------------------------------------------------------------------------------

template <class To, class From> static inline To lw_same_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "types of one size");
    To same;
    memcpy(&same, &value, sizeof same);
    return same;
}
static inline float __int_as_float(int x) { return lw_same_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return lw_same_bits<float>(x); }
static inline int __float_as_int(float x) { return lw_same_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return lw_same_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return lw_same_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return lw_same_bits<long long>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}

// -- arithmetic ----------------------------------------------------------------------------------

static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
#define __expf expf
#define __logf logf

// -- loads with a hint, atomics: the threads of the shim never run at once -----------------------

template <class T> T __ldg(const T *place) { return *place; }
template <class T> T __ldca(const T *place) { return *place; }
template <class T> T __ldcg(const T *place) { return *place; }
template <class T> T __ldcs(const T *place) { return *place; }
template <class T> void __stcg(T *place, T value) { *place = value; }
template <class T> void __stcs(T *place, T value) { *place = value; }

template <class T> struct LwPlain { using type = T; };
#define LW_ATOMIC(name, update)                                                                    \
    template <class T> T name(T *place, typename LwPlain<T>::type value) {                         \
        T old = *place;                                                                            \
        *place = update;                                                                           \
        return old;                                                                                \
    }
LW_ATOMIC(atomicAdd, old + value)
LW_ATOMIC(atomicSub, old - value)
LW_ATOMIC(atomicExch, value)
LW_ATOMIC(atomicMin, value < old ? value : old)
LW_ATOMIC(atomicMax, old < value ? value : old)
LW_ATOMIC(atomicAnd, old & value)
LW_ATOMIC(atomicOr, old | value)
LW_ATOMIC(atomicXor, old ^ value)
template <class T>
T atomicCAS(T *place, typename LwPlain<T>::type compare, typename LwPlain<T>::type value) {
    T old = *place;
    if (lw_same_bits<T>(old) == compare) *place = value;
    return old;
}

// -- halves: kept as bits, every operation rounds the float result to the nearest, ties to even ---

static inline uint16_t lw_half_bits(float value) {
    uint32_t bits = lw_same_bits<uint32_t>(value), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
    if (bits >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and beyond
    if (bits < 0x38800000) {  // below 2^-14: multiples of 2^-24, which the sum with 0.5 rounds to
        float rounded = lw_same_bits<float>(bits) + 0.5f;
        return static_cast<uint16_t>(sign | (lw_same_bits<uint32_t>(rounded) - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1) - (112u << 23);
    return static_cast<uint16_t>(sign | bits >> 13);
}
static inline float lw_half_value(uint16_t half) {
    uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00) return lw_same_bits<float>(sign | 0x7f800000 | rest << 13);
    if (rest >= 0x0400) return lw_same_bits<float>(sign | ((rest << 13) + (112u << 23)));
    float tiny = static_cast<float>(rest) * 0x1p-24f;
    return sign ? -tiny : tiny;
}
static inline uint16_t lw_bfloat_bits(float value) {
    uint32_t bits = lw_same_bits<uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float lw_bfloat_value(uint16_t bits) {
    return lw_same_bits<float>(static_cast<uint32_t>(bits) << 16);
}

// No constructor of its own: arrays of it in shared memory must start as they are.
#define LW_SHORT_FLOAT(name, encode, decode)                                                       \
    struct name {                                                                                  \
        uint16_t bits;                                                                             \
        name() = default;                                                                          \
        name(float value) : bits(encode(value)) {}                                                 \
        name(double value) : bits(encode(static_cast<float>(value))) {}                            \
        name(int value) : bits(encode(static_cast<float>(value))) {}                               \
        operator float() const { return decode(bits); }                                            \
    };                                                                                             \
    static inline name operator+(name x, name y) { return float(x) + float(y); }                   \
    static inline name operator-(name x, name y) { return float(x) - float(y); }                   \
    static inline name operator*(name x, name y) { return float(x) * float(y); }                   \
    static inline name operator/(name x, name y) { return float(x) / float(y); }                   \
    static inline name operator-(name x) { return -float(x); }                                     \
    static inline name &operator+=(name &x, name y) { return x = x + y; }                          \
    static inline name &operator*=(name &x, name y) { return x = x * y; }                          \
    static inline bool operator<(name x, name y) { return float(x) < float(y); }                   \
    static inline bool operator>(name x, name y) { return float(x) > float(y); }                   \
    static inline bool operator<=(name x, name y) { return float(x) <= float(y); }                 \
    static inline bool operator>=(name x, name y) { return float(x) >= float(y); }                 \
    static inline bool operator==(name x, name y) { return float(x) == float(y); }                 \
    static inline bool operator!=(name x, name y) { return float(x) != float(y); }                 \
    static inline name __hadd(name x, name y) { return x + y; }                                    \
    static inline name __hsub(name x, name y) { return x - y; }                                    \
    static inline name __hmul(name x, name y) { return x * y; }                                    \
    static inline name __hdiv(name x, name y) { return x / y; }                                    \
    static inline name __hneg(name x) { return -x; }                                               \
    static inline name __hmin(name x, name y) { return fminf(x, y); }                              \
    static inline name __hmax(name x, name y) { return fmaxf(x, y); }                              \
    static inline name __hfma(name x, name y, name z) {                                            \
        /* A double holds the product of two and almost every sum with a third. */                \
        return static_cast<float>(double(float(x)) * double(float(y)) + double(float(z)));         \
    }                                                                                              \
    struct alignas(4) name##2 { name x, y; };

LW_SHORT_FLOAT(__half, lw_half_bits, lw_half_value)
LW_SHORT_FLOAT(__nv_bfloat16, lw_bfloat_bits, lw_bfloat_value)
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

static inline __half __float2half(float x) { return x; }
static inline __half __float2half_rn(float x) { return x; }
static inline __half __double2half(double x) { return x; }
static inline float __half2float(__half x) { return x; }
static inline __half __ushort_as_half(unsigned short x) { __half h; h.bits = x; return h; }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
