/* The host side of Athread, for the emulator: what a master source includes. */
#ifndef LW_ATHREAD_H
#define LW_ATHREAD_H

#include "athread_types.h"

#define SLAVE_FUN(x) slave_##x
#define athread_spawn(f, arg) __real_athread_spawn((void *)slave_##f, (void *)(arg))
#define athread_spawn_group(mask, f, arg)                                                          \
    __real_athread_spawn_group(mask, (void *)slave_##f, (void *)(arg))
#define athread_create(id, f, arg) __real_athread_create(id, (void *)slave_##f, (void *)(arg))

int athread_init(void);
int athread_halt(void);
/* The newer generation passes a third argument, which is always 1. */
int __real_athread_spawn(void *function, void *argument, ...);
int __real_athread_spawn_group(unsigned long mask, void *function, void *argument);
int __real_athread_create(int id, void *function, void *argument);
int athread_join(void);
int athread_join_group(unsigned long mask);
int athread_wait(int id);
int athread_end(int id);
int athread_set_num_threads(int count);
int athread_get_num_threads(void);
int athread_get_max_threads(void);
int athread_idle(void);

unsigned long athread_time_cycle(void); /* of the host, counted in work of the CPEs */
#define rtc_(x) ((x) = athread_time_cycle())
#define rpcc(x) ((x) = athread_time_cycle())

#endif
