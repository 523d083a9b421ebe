/* Vectors of Sunway's CPEs by the vector types of the host's compiler, and register communication.
 *
 * What sw5cc accepts beyond these types, scalars in place of vectors, is rewritten before the
 * host's compiler sees the text (sunway_c.py).
 */
#ifndef LW_SIMD_H
#define LW_SIMD_H

#include "athread_types.h"

typedef double doublev4 __attribute__((vector_size(32)));
typedef float floatv4 __attribute__((vector_size(16)));
typedef int intv8 __attribute__((vector_size(32)));
typedef unsigned uintv8 __attribute__((vector_size(32)));
typedef long int256 __attribute__((vector_size(32)));
typedef double doublev8 __attribute__((vector_size(64)));
typedef float floatv8 __attribute__((vector_size(32)));
typedef int intv16 __attribute__((vector_size(64)));

#define LW_SPLATS(type, element, lanes, ...)                                                       \
    static inline type lw_same_##type(type x) { return x; }                                        \
    static inline type lw_splat_##type(element x) { return (type){__VA_ARGS__}; }
LW_SPLATS(doublev4, double, 4, x, x, x, x)
LW_SPLATS(floatv4, float, 4, x, x, x, x)
LW_SPLATS(intv8, int, 8, x, x, x, x, x, x, x, x)
LW_SPLATS(uintv8, unsigned, 8, x, x, x, x, x, x, x, x)
LW_SPLATS(int256, long, 4, x, x, x, x)
LW_SPLATS(doublev8, double, 8, x, x, x, x, x, x, x, x)
LW_SPLATS(floatv8, float, 8, x, x, x, x, x, x, x, x)
LW_SPLATS(intv16, int, 16, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x)

/* A vector as it is, a scalar in all lanes. */
#define LW_VECTOR(type, x) _Generic((x), type: lw_same_##type, default: lw_splat_##type)(x)

/* -- loads and stores: aligned by the size of the vector, but for those with a u ----------------- */

void lw_need_aligned(const volatile void *address, size_t bytes);
#define LW_AT(v, p) (lw_need_aligned((p), sizeof(v)), (__typeof__(v) *)(p))
#define LW_ANYWHERE(v, p)                                                                          \
    (&((struct { __typeof__(v) x; } __attribute__((packed, aligned(4), may_alias)) *)(p))->x)
#define simd_load(v, p) ((v) = *LW_AT(v, p))
#define simd_store(v, p) (*LW_AT(v, p) = (v))
#define simd_loadu(v, p) ((v) = *LW_ANYWHERE(v, p))
#define simd_storeu(v, p) (*LW_ANYWHERE(v, p) = (v))
#define LW_SPLAT_OF(v)                                                                             \
    _Generic((v), doublev4: lw_splat_doublev4, floatv4: lw_splat_floatv4,                          \
             intv8: lw_splat_intv8, uintv8: lw_splat_uintv8, int256: lw_splat_int256,              \
             doublev8: lw_splat_doublev8, floatv8: lw_splat_floatv8, intv16: lw_splat_intv16)
#define simd_loade(v, p) ((v) = LW_SPLAT_OF(v)(*(p))) /* one element to all lanes */

/* -- arithmetic --------------------------------------------------------------------------------- */

#define simd_vmad(a, b, c) ((a) * (b) + (c))
#define simd_vmas(a, b, c) ((a) * (b) - (c))
#define simd_vnmad(a, b, c) ((c) - (a) * (b))
#define simd_vnmas(a, b, c) (-(a) * (b) - (c))
#define simd_vmadd simd_vmad
#define simd_vmads simd_vmad
#define simd_vaddd(a, b) ((a) + (b))
#define simd_vsubd(a, b) ((a) - (b))
#define simd_vmuld(a, b) ((a) * (b))
#define simd_vdivd(a, b) ((a) / (b))
#define simd_vadds simd_vaddd
#define simd_vsubs simd_vsubd
#define simd_vmuls simd_vmuld
#define simd_vdivs simd_vdivd
#define simd_vaddw simd_vaddd
#define simd_vsubw simd_vsubd
#define simd_set_doublev4(a, b, c, d) ((doublev4){(a), (b), (c), (d)})
#define simd_set_floatv4(a, b, c, d) ((floatv4){(a), (b), (c), (d)})
#define simd_set_doublev8(a, b, c, d, e, f, g, h) ((doublev8){(a), (b), (c), (d), (e), (f), (g), (h)})
#define simd_vextf0(v) ((v)[0])
#define simd_vextf1(v) ((v)[1])
#define simd_vextf2(v) ((v)[2])
#define simd_vextf3(v) ((v)[3])
#define simd_reduc_plusd(v) ((v)[0] + (v)[1] + (v)[2] + (v)[3])
#define simd_reduc_pluss simd_reduc_plusd

/* -- register communication: 0 to 7 is a column (putr) or row (putc), 8 all others --------------- */

void lw_send(int along_row, const void *value, size_t bytes, int to);
void lw_receive(int along_row, void *value, size_t bytes);
#define LW_SEND(along_row, v, to)                                                                  \
    ({                                                                                             \
        __typeof__(v) lw_value = (v);                                                              \
        lw_send(along_row, &lw_value, sizeof lw_value, (to));                                      \
    })
#define LW_RECEIVE(along_row, v)                                                                   \
    ({                                                                                             \
        __typeof__(v) lw_value;                                                                    \
        lw_receive(along_row, &lw_value, sizeof lw_value);                                         \
        (v) = lw_value;                                                                            \
    })
#define simd_putr(v, to) LW_SEND(1, v, to)
#define simd_putc(v, to) LW_SEND(0, v, to)
#define simd_getr(v) LW_RECEIVE(1, v)
#define simd_getc(v) LW_RECEIVE(0, v)

#endif
