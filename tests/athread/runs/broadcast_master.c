/* A product whose tiles of A go along the rows and those of B down the columns, by registers. */
#include "broadcast.h"
#include <athread.h>
extern void SLAVE_FUN(product)(void *);

int main(void) {
    athread_init();
    Product p;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            p.a[i][j] = (i * j) % 5;
            p.b[i][j] = i - j;
        }
    athread_spawn(product, &p);
    athread_join();
    int wrong = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++) sum += p.a[i][k] * p.b[k][j];
            wrong += p.c[i][j] != sum;
        }
    printf("%d wrong\n", wrong);
    return wrong;
}
