/* Bookings against events in the same room: how many overlap, how long together, which clash. */

void kernel_interval_overlaps(int n, int m, int from[n], int long_[n], int start[m], int stop[m],
                              short room[n], short place[m], int count[n], int covered[n],
                              int longest[n], unsigned char clash[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        int hits = 0, sum = 0, top = 0;
        int end = from[i] + long_[i];
        for (int j = 0; j < m; j++) {
            int low = from[i] > start[j] ? from[i] : start[j];
            int high = end < stop[j] ? end : stop[j];
            if (room[i] % 8 == place[j] % 8 && low < high) {
                hits++;
                sum += high - low;
                if (high - low > top)
                    top = high - low;
            }
        }
        count[i] = hits;
        covered[i] = sum;
        longest[i] = top;
        clash[i] = sum > long_[i] / 2 ? 1 : 0;
    }
#pragma endscop
}
