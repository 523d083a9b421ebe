/* Sensors every five minutes, some readings lost: the last one is carried on, the first one carried
   back, means by the hour, the lowest of all sensors. */
#define PER 12

void kernel_filled_gaps(int sensors, int hours, float seen[sensors][PER * hours],
                        unsigned char lost[sensors][PER * hours], float full[sensors][PER * hours],
                        int age[sensors][PER * hours], float hourly[sensors][hours],
                        float lowest[hours], int gaps[sensors])
{
#pragma scop
    for (int s = 0; s < sensors; s++) {
        float last = 0.0f;
        int old = -1;
        gaps[s] = 0;
        for (int t = 0; t < PER * hours; t++) {
            if (!lost[s][t]) {
                last = seen[s][t];
                old = 0;
            } else {
                if (old >= 0)
                    old++;
                if (t == 0 || !lost[s][t - 1])
                    gaps[s]++;
            }
            full[s][t] = last;
            age[s][t] = old;
        }
        /* before the first reading */
        for (int t = PER * hours - 2; t >= 0; t--)
            if (age[s][t] < 0)
                full[s][t] = full[s][t + 1];
    }
    for (int s = 0; s < sensors; s++)
        for (int h = 0; h < hours; h++) {
            float sum = 0.0f;
            for (int k = 0; k < PER; k++)
                sum += full[s][PER * h + k];
            hourly[s][h] = sum / PER;
        }
    for (int h = 0; h < hours; h++)
        lowest[h] = hourly[0][h];
    for (int s = 1; s < sensors; s++)
        for (int h = 0; h < hours; h++)
            if (hourly[s][h] < lowest[h])
                lowest[h] = hourly[s][h];
#pragma endscop
}
