/* See slave.h: vectors, and messages between the cores of a row or column. */
#ifndef SHIM_SIMD_H
#define SHIM_SIMD_H
#include <string.h>
typedef double doublev4 __attribute__((vector_size(32)));
typedef float floatv4 __attribute__((vector_size(16)));
void shim_send(int along_row, const void *value, int to);
void shim_receive(int along_row, void *value);
#define simd_load(v, p) memcpy(&(v), (p), sizeof(v))
#define simd_loadu(v, p) memcpy(&(v), (p), sizeof(v))
#define simd_store(v, p) memcpy((p), &(v), sizeof(v))
#define simd_storeu(v, p) memcpy((p), &(v), sizeof(v))
#define simd_loade(v, p) ((v) = (__typeof__(v)){*(p), *(p), *(p), *(p)})
#define simd_set_doublev4(a, b, c, d) ((doublev4){(a), (b), (c), (d)})
#define simd_set_floatv4(a, b, c, d) ((floatv4){(a), (b), (c), (d)})
#define simd_putr(v, to) shim_send(1, &(v), to)
#define simd_putc(v, to) shim_send(0, &(v), to)
#define simd_getr(v) shim_receive(1, &(v))
#define simd_getc(v) shim_receive(0, &(v))
#endif
