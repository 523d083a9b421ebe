/* See slave.h. */
void dma_wait(volatile void *reply, int value);
