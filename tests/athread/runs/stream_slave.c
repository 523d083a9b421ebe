#include "stream.h"
#include <slave.h>

__thread_local char buffer[LENGTH];
__thread_local volatile int reply;

void copy(Stream *s) {
    char *from = s->from, *to = s->to;
    long extent = (long)(LENGTH / BLOCK) * (BLOCK + GAP);
    for (int turn = 0; turn < TURNS; turn++) {
        long at = (_MYID * TURNS + turn) * extent;
        reply = 0;
        athread_get(PE_MODE, from + at, buffer, LENGTH, (void *)&reply, 0, GAP, GAP ? BLOCK : 0);
        while (reply != 1) {}
        reply = 0;
        athread_put(PE_MODE, buffer, to + at, LENGTH, (void *)&reply, GAP, GAP ? BLOCK : 0);
        while (reply != 1) {}
    }
}
