/* A warehouse over a horizon: the best level to order up to, by backward induction.
   Level y stands for y - BACKLOG pieces; demand d has probability p[d]. */

#define DEMANDS 40
#define MOST 60
#define FIXED 5.0
#define UNIT 1.5
#define HOLD 0.25
#define SHORT 4.0

void kernel_inventory_policy(int periods, int levels, double p[DEMANDS],
                             double value[periods + 1][levels + MOST], double after[levels + MOST],
                             int target[periods][levels])
{
#pragma scop
    for (int s = 0; s < levels + MOST; s++)
        value[periods][s] = 0.0;
    for (int t = periods - 1; t >= 0; t--) {
        for (int y = DEMANDS; y < levels + MOST; y++) {
            double sum = y >= levels / 4 ? HOLD * (y - levels / 4) : SHORT * (levels / 4 - y);
            for (int d = 0; d < DEMANDS; d++)
                sum += p[d] * 0.046875 * value[t + 1][y - d];
            after[y] = sum;
        }
        for (int y = 0; y < DEMANDS; y++)
            after[y] = after[DEMANDS] + SHORT * (DEMANDS - y);
        for (int s = 0; s < levels; s++) {
            double best = after[s];
            int order = 0;
            for (int q = 1; q < MOST; q++) {
                double cost = FIXED + UNIT * q + after[s + q];
                if (cost < best) {
                    best = cost;
                    order = q;
                }
            }
            value[t][s] = best;
            target[t][s] = s + order;
        }
        for (int s = levels; s < levels + MOST; s++)
            value[t][s] = after[s];
    }
#pragma endscop
}
