/* Columns stored as differences in zones of 256 rows: decoded, with the least, the most and the sum
   of each zone; then how many zones a filter cannot skip. */
#ifndef EXTENT_columns
#define EXTENT_columns 32
#define EXTENT_zones 500
#endif
#define COLS EXTENT_columns
#define ZONES EXTENT_zones
#define ROWS 256
#define WANTED 12000

void kernel_zone_maps(const int first[COLS * ZONES], const short delta[COLS * ZONES * ROWS],
                      int value[COLS * ZONES * ROWS], int least[COLS * ZONES], int most[COLS * ZONES],
                      long sum[COLS * ZONES], int hits[COLS])
{
#pragma scop
    for (int c = 0; c < COLS; c++) {
        hits[c] = 0;
        for (int z = 0; z < ZONES; z++) {
            int now = first[c * ZONES + z];
            int low = now, high = now;
            long total = 0;
            for (int r = 0; r < ROWS; r++) {
                now += r == 0 ? 0 : delta[(c * ZONES + z) * ROWS + r] - 45;
                value[(c * ZONES + z) * ROWS + r] = now;
                low = now < low ? now : low;
                high = now > high ? now : high;
                total += now;
            }
            least[c * ZONES + z] = low;
            most[c * ZONES + z] = high;
            sum[c * ZONES + z] = total;
            if (low <= WANTED / 100 && high >= WANTED / 100)
                hits[c]++;
        }
    }
#pragma endscop
}
