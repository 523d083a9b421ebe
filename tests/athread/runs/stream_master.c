#include "stream.h"
#include <athread.h>
extern void SLAVE_FUN(copy)(void *);

int main(void) {
    athread_init();
    long bytes = 64L * TURNS * (LENGTH / BLOCK) * (BLOCK + GAP);
    Stream s = {aligned_alloc(128, bytes), aligned_alloc(128, bytes)};
    memset(s.from, 1, bytes);
    athread_spawn(copy, &s);
    athread_join();
    printf("%d\n", s.to[0] == 1 && s.to[bytes - GAP - 1] == 1);
    return 0;
}
