#include <slave.h>

/* Names that sources of the emulator have, too. */
extern int results[64];
__thread_local int describe[4];
__thread_local volatile int cpes;
int current = 5, is_strict = 10;

int place(int x) { return x + 1; }
int fault(int x) { return place(x) + current; }
void transfer(int *from, int *to) {
    cpes = 0;
    athread_put(PE_MODE, from, to, 4, (void *)&cpes, 0, 0);
    dma_wait(&cpes, 1);
}

void work(void *unused) {
    (void)unused;
    describe[0] = fault(_MYID) + is_strict;
    transfer(describe, &results[_MYID]);
}
