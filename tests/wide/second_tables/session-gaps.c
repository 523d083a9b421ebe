/* Events of users in the order of time: a long pause begins a session; running sums within one. */

#define PAUSE 90

void kernel_session_gaps(int users, int events, unsigned char gap[users][events],
                         int amount[users][events], short session[users][events],
                         int sofar[users][events], int sessions[users], int largest[users])
{
#pragma scop
    for (int u = 0; u < users; u++) {
        int number = 0;
        int sum = 0;
        int most = 0;
        for (int e = 0; e < events; e++) {
            if (e == 0 || gap[u][e] > PAUSE) {
                number++;
                sum = 0;
            }
            sum += amount[u][e];
            if (sum > most)
                most = sum;
            session[u][e] = number;
            sofar[u][e] = sum;
        }
        sessions[u] = number;
        largest[u] = most;
    }
#pragma endscop
}
