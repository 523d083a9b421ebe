/* In how many ways a sum is made of coins worth 1, 2, ..., parts (modulo 2^64), kept in one row:
   any number of each coin may be used. */
void kernel_partitions(int parts, int sums, unsigned long ways[sums])
{
#pragma scop
    ways[0] = 1;
    for (int s = 1; s < sums; s++)
        ways[s] = 0;
    for (int c = 1; c <= parts; c++)
        for (int s = c; s < sums; s++)
            ways[s] += ways[s - c];
#pragma endscop
}
