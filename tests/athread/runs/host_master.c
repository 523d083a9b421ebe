/* The host's side of Athread: small teams, single CPEs, arguments, functions of both sides. */
#include <athread.h>
extern void SLAVE_FUN(mark)(void *), SLAVE_FUN(single)(void *), SLAVE_FUN(keep)(void *);

int helper(int x) { return x + 1; } /* the slave's source has one of its own */
int marks[64];

int main(int argc, char **argv) {
    athread_init();
    athread_set_num_threads(10);
    athread_spawn(mark, marks);
    athread_join();
    int count = 0;
    for (int i = 0; i < 64; i++) count += marks[i];
    printf("%d of %d marks, %d threads, helper %d, argument %s\n", count, athread_get_max_threads(),
           athread_get_num_threads(), helper(1), argc > 1 ? argv[1] : "none");
    long where[2] = {0, 0};
    athread_create(42, single, where);
    athread_wait(42);
    printf("CPE %ld, row %ld\n", where[0], where[1]);
    athread_set_num_threads(64);
    for (int turn = 0; turn < 3; turn++) {
        athread_spawn(keep, marks);
        athread_join();
    }
    printf("kept %d %d\n", marks[0], marks[63]);
    athread_halt();
    return 3;
}
