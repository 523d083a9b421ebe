/* Sales by store, day and item: turned to item, store, day; with totals of each item and store. */
#ifndef EXTENT_stores
#define EXTENT_stores 200
#endif
#ifndef EXTENT_days
#define EXTENT_days 250
#endif
#ifndef EXTENT_items
#define EXTENT_items 250
#endif
#include "kernel.h"

void kernel_pivot_sales(int stores, int days, int items, DATA CUBE(sales, stores, days, items),
                        DATA CUBE(turned, items, stores, days), DATA MATRIX(total, items, stores))
{
    int s, d, i;

#pragma scop
    for (i = 0; i < BOUND(items); i++)
        for (s = 0; s < BOUND(stores); s++)
            total[i][s] = 0;
    for (s = 0; s < BOUND(stores); s++)
        for (d = 0; d < BOUND(days); d++)
            for (i = 0; i < BOUND(items); i++) {
                turned[i][s][d] = sales[s][d][i];
                total[i][s] += sales[s][d][i];
            }
#pragma endscop
}
