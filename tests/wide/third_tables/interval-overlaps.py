"""Bookings against events in the same room: how many overlap, how long together, which clash."""


def kernel_interval_overlaps(
    n, m, begin, length, start, stop, room, place, count, covered, longest, clash
):
    for i in range(n):
        hits = 0
        total = 0
        top = 0
        end = begin[i] + length[i]
        for j in range(m):
            low = max(begin[i], start[j])
            high = min(end, stop[j])
            if room[i] % 8 == place[j] % 8 and low < high:
                hits += 1
                total += high - low
                top = max(top, high - low)
        count[i] = hits
        covered[i] = total
        longest[i] = top
        clash[i] = 1 if total > length[i] // 2 else 0
