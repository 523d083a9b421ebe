/* See slave.h. */
#ifndef SHIM_ATHREAD_H
#define SHIM_ATHREAD_H
#define SLAVE_FUN(x) slave_##x
#define athread_spawn(f, arg) shim_spawn(slave_##f, arg)
void shim_spawn(void (*function)(void *), void *argument);
int athread_init(void);
int athread_join(void);
int athread_halt(void);
#endif
