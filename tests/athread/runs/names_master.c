#include <athread.h>
#include <stdio.h>

int results[64];
long progress = 1; /* names that sources of the emulator have, too */
extern void SLAVE_FUN(work)(void *);

int main(void) {
    athread_init();
    athread_spawn(work, 0);
    athread_join();
    printf("%d %d\n", results[0], results[63]);
    return 0;
}
