/* Dominators of a flow graph as sets of bits: what every predecessor has, and the node itself. */
#ifndef EXTENT_words
#define EXTENT_words 28
#endif
#define WORDS EXTENT_words
#define NODES (32 * WORDS)

void kernel_dominator_bits(int rounds, int words, unsigned char edge[NODES][NODES],
                           unsigned dom[NODES][WORDS])
{
#pragma scop
    for (int v = 0; v < 32 * words; v++)
        for (int w = 0; w < words; w++)
            dom[v][w] = v == 0 ? 0u : ~0u;
    dom[0][0] = 1u;
    for (int r = 0; r < rounds; r++) {
        for (int v = 1; v < 32 * words; v++)
            for (int u = 0; u < 32 * words; u++)
                if (edge[u][v])
                    for (int w = 0; w < words; w++)
                        dom[v][w] &= dom[u][w];
        for (int w = 0; w < words; w++)
            for (int b = 0; b < 32; b++)
                dom[32 * w + b][w] |= 1u << b;
    }
#pragma endscop
}
