#include <slave.h>

int helper(int x) { return 2 * x; }

void mark(int *marks) { marks[_MYID] = helper(5) == 10; }

void single(long *where) {
    where[0] = athread_get_id(-1);
    asm volatile("rcsr %0, 1" : "=r"(where[1]));
}

__thread_local int calls = 100; /* stays in the LDM from team to team */

void keep(int *marks) {
    calls++;
    marks[_MYID] = calls;
    if (_MYID == 5 && calls == 101) printf("CPE %d says hello\n", _MYID);
}
