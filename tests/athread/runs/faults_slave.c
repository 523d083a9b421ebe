#include <slave.h>

int *nowhere;
int zero;
int reply; /* not volatile */
static __thread_local double buffer[16];

static void deep(int levels) {
    volatile double room[512];
    room[0] = levels;
    if (levels) deep(levels - 1);
    room[1] = room[0];
}

void run(int *value) {
    if (_MYID != 0) return;
#if defined(NULL_POINTER)
    nowhere[5] = 1;
#elif defined(ENDLESS)
    while (*value == 0) asm volatile("memb");
#elif defined(SPIN)
    for (int ready = 0; ready == 0;) asm volatile("nop");
#elif defined(RECURSION)
    deep(40);
#elif defined(HEAP)
    for (int i = 0; i < 5; i++) ldm_malloc(16384);
#elif defined(BAD_FREE)
    ldm_free(ldm_malloc(128), 64);
#elif defined(NEGATIVE)
    athread_get(PE_MODE, value, buffer, -4, &reply, 0, 0, 0);
#elif defined(NO_REPLY)
    athread_get(PE_MODE, value, buffer, 4, value, 0, 0, 0);
#elif defined(RANK)
    athread_get(RANK_MODE, value, buffer, 4, &reply, 0, 0, 0);
#elif defined(HOST_ONLY)
    athread_join();
#elif defined(BEYOND_LDM)
    static __thread_local volatile int own;
    athread_get(PE_MODE, value, buffer, 1 << 20, (void *)&own, 0, 0, 0);
#elif defined(TO_ITSELF)
    double x = 1;
    simd_putr(x, 0);
#elif defined(UNSENT)
    asm volatile("vaddd %0, %0, %0" : "+r"(zero));
#endif
}
