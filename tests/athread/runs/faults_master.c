#include <athread.h>
extern void SLAVE_FUN(run)(void *);
int value;

int main(void) {
#ifndef NO_INIT
    athread_init();
#endif
    athread_spawn(run, &value);
#ifdef TWICE
    athread_spawn(run, &value);
#endif
#ifndef NO_JOIN
    athread_join();
#endif
    return 0;
}
