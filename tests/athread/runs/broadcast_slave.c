#include "broadcast.h"
#include <slave.h>

__thread_local double own_a[T][T], own_b[T][T], a[T][T], b[T][T], c[T][T];
__thread_local volatile int reply;

void product(Product *p) {
    reply = 0;
    athread_get(PE_MODE, &p->a[T * _ROW][T * _COL], own_a, sizeof a, (void *)&reply, 0, (N - T) * 8,
                T * 8);
    athread_get(PE_MODE, &p->b[T * _ROW][T * _COL], own_b, sizeof b, (void *)&reply, 0, (N - T) * 8,
                T * 8);
    while (reply != 2) {}
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) c[i][j] = 0;
    for (int step = 0; step < 8; step++) {
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j += 4) {
                doublev4 v;
                if (_COL == step) {
                    simd_load(v, &own_a[i][j]);
                    simd_putr(v, 8);
                } else
                    simd_getr(v);
                simd_store(v, &a[i][j]);
                if (_ROW == step) {
                    simd_load(v, &own_b[i][j]);
                    asm volatile("putc %0,%1" ::"r"(v), "r"(8));
                } else
                    asm volatile("getc %0" : "=r"(v));
                simd_store(v, &b[i][j]);
            }
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++)
                for (int k = 0; k < T; k++) c[i][j] += a[i][k] * b[k][j];
        athread_syn(ARRAY_SCOPE, 0xffff); /* nobody sends for the next step before all have these */
    }
    reply = 0;
    athread_put(PE_MODE, c, &p->c[T * _ROW][T * _COL], sizeof c, (void *)&reply, (N - T) * 8, T * 8);
    while (reply != 1) {}
}
