/* Which accesses to main memory are ordered: by spawn and join, barriers, messages; others race.
 *
 * Vector clocks, with the host as one more thread. For every word of main memory that CPEs use, the
 * last write is kept with its clock, and which CPEs have read it since the last point at which all
 * of the team met. A read counts from the beginning of that phase: a race is never reported where
 * there is none. A word of which a part is used alone (chars and shorts) is watched byte by byte.
 *
 * A put that has ended has left the LDM, and need not have come to main memory. With ATHREAD_STRICT
 * its own CPE must not read the words before it has met others, either, or get them before a
 * barrier of its requests (athread_dma_barrier). When a get behind such a barrier has ended, so have
 * the puts before it.
 */

#include "emulator.h"

enum { PAGE = 4096, WORD = 4, BUCKETS = 1 << 16 };

typedef struct Word {
    uint64_t readers; /* of phase `read_phase` */
    Clock write_clock;
    uint32_t read_phase;
    int write_site, read_site;
    int8_t writer; /* -1: nobody */
    bool host_reads, is_put;
    long dma_barriers; /* of the writer, when it put the word */
    struct Word *bytes; /* where they have been used apart, and then in place of all above */
} Word;

typedef struct Page {
    struct Page *next;
    uintptr_t number;
    Word words[PAGE / WORD];
} Page;

typedef struct {
    char *start;
    size_t bytes;
    int site;
} Allocation;

static Page *pages[BUCKETS];
static bool is_strict;
static uint32_t phase = 1;
static Clock phase_clocks[CLOCKS]; /* of each thread when the phase began */
static Allocation *allocations;
static size_t allocation_count, allocation_room;

Clock *clocks_of(int who) {
    return who == HOST ? host_clocks : cpes[who].clocks;
}

void join_clocks(Clock *into, const Clock *from) {
    for (int i = 0; i < CLOCKS; ++i)
        if (from[i] > into[i]) into[i] = from[i];
}

void set_up_order(void) {
    is_strict = getenv("ATHREAD_STRICT") != NULL;
}

void start_phase(void) {
    ++phase;
    for (int i = 0; i < cpe_count(); ++i) phase_clocks[i] = cpes[i].clocks[i];
    phase_clocks[HOST] = host_clocks[HOST];
}

static Page *page_of(uintptr_t number) {
    static Page *last;
    if (last && last->number == number) return last;
    Page **bucket = &pages[number * 0x9E3779B97F4A7C15ull >> 48];
    for (Page *page = *bucket; page; page = page->next)
        if (page->number == number) return last = page;
    Page *page = calloc(1, sizeof *page);
    if (!page) fault(lw_call_site, "the host has no memory to watch %d bytes", PAGE);
    page->number = number;
    page->next = *bucket;
    *bucket = page;
    for (int i = 0; i < PAGE / WORD; ++i) page->words[i].writer = -1;
    return last = page;
}

static const char *who_is(int who) {
    static char texts[4][32];
    static int at;
    if (who == HOST) return "the host";
    char *text = texts[at++ % 4];
    snprintf(text, sizeof texts[0], "CPE %d", who);
    return text;
}

static _Noreturn void report(const char *at, int site, const char *by, bool is_write, int other,
                             int other_site, bool other_writes) {
    fault(site, "%s%s %s (%s), which %s %s at %s, with no barrier or join between the two",
          current ? "" : "the host ", is_write ? "writes" : "reads", describe_memory(at),
          by ? by : "directly", who_is(other), other_writes ? "writes" : "reads",
          place(other_site));
}

static _Noreturn void report_not_landed(const Word *word, const char *at, int site, const char *by) {
    fault(site, "reads %s (%s), which it has put itself at %s, with no barrier between the two: "
          "what has left the LDM need not have come to main memory", describe_memory(at),
          by ? by : "directly", place(word->write_site));
}

static void note_unit(Word *unit, const char *address, int who, bool is_write, int site,
                      const char *by) {
    const Clock *known = clocks_of(who);
    if (unit->writer >= 0 && unit->writer != who && known[unit->writer] < unit->write_clock)
        report(address, site, by, is_write, unit->writer, unit->write_site, true);
    if (is_strict && !is_write && unit->is_put && unit->writer == who &&
        known[who] == unit->write_clock &&
        (by ? unit->dma_barriers == cpes[who].dma_barriers
            : unit->dma_barriers >= cpes[who].landed))
        report_not_landed(unit, address, site, by);
    if (unit->read_phase != phase) {
        unit->readers = 0;
        unit->host_reads = false;
    }
    if (!is_write) {
        unit->read_phase = phase;
        unit->read_site = site;
        if (who == HOST)
            unit->host_reads = true;
        else
            unit->readers |= 1ull << who;
        return;
    }
    uint64_t others = who == HOST ? unit->readers : unit->readers & ~(1ull << who);
    for (int i = 0; others; ++i, others >>= 1)
        if (others & 1 && known[i] < phase_clocks[i])
            report(address, site, by, true, i, unit->read_site, false);
    if (unit->host_reads && who != HOST && known[HOST] < phase_clocks[HOST])
        report(address, site, by, true, HOST, unit->read_site, false);
    unit->writer = (int8_t)who;
    unit->write_clock = known[who];
    unit->write_site = site;
    unit->is_put = by != NULL;
    if (unit->is_put) unit->dma_barriers = cpes[who].dma_barriers;
}

static Word *bytes_of(Word *word) {
    if (!word->bytes) {
        Word *bytes = malloc(WORD * sizeof *bytes);
        if (!bytes) fault(lw_call_site, "the host has no memory to watch %d bytes", WORD);
        for (int i = 0; i < WORD; ++i) bytes[i] = *word;
        word->bytes = bytes;
    }
    return word->bytes;
}

void note_access(int who, const char *start, long bytes, bool is_write, int site, const char *by) {
    uintptr_t begin = (uintptr_t)start, end = begin + bytes;
    for (uintptr_t at = begin / WORD; at * WORD < end; ++at) {
        Word *word = &page_of(at * WORD / PAGE)->words[at % (PAGE / WORD)];
        bool is_whole = at * WORD >= begin && (at + 1) * WORD <= end;
        if (is_whole && !word->bytes) {
            note_unit(word, (const char *)(at * WORD), who, is_write, site, by);
            continue;
        }
        Word *parts = bytes_of(word);
        for (uintptr_t byte = at * WORD; byte < (at + 1) * WORD; ++byte)
            if (byte >= begin && byte < end)
                note_unit(&parts[byte % WORD], (const char *)byte, who, is_write, site, by);
    }
}

/* -- what the program has allocated ------------------------------------------------------------------ */

void note_allocation(void *start, size_t bytes, int site) {
    if (!start) return;
    if (allocation_count == allocation_room) {
        allocation_room = allocation_room ? 2 * allocation_room : 64;
        allocations = realloc(allocations, allocation_room * sizeof *allocations);
    }
    allocations[allocation_count++] = (Allocation){start, bytes, site};
    /* What others did with these bytes before says nothing about what they are now. */
    uintptr_t end = (uintptr_t)start + bytes;
    for (uintptr_t at = (uintptr_t)start; team_is_active && at < end; at += WORD) {
        Word *word = &page_of(at / PAGE)->words[at / WORD % (PAGE / WORD)];
        free(word->bytes);
        memset(word, 0, sizeof *word);
        word->writer = -1;
    }
}

static Allocation *allocation_of(const char *address) {
    for (size_t i = allocation_count; i-- > 0;)
        if (address >= allocations[i].start && address < allocations[i].start + allocations[i].bytes)
            return &allocations[i];
    return NULL;
}

void forget_allocation(void *start) {
    for (size_t i = 0; i < allocation_count; ++i)
        if (allocations[i].start == start) {
            allocations[i] = allocations[--allocation_count];
            return;
        }
}

long bytes_left(const char *address, int *site, long *size) {
    Allocation *found = allocation_of(address);
    if (!found) return -1;
    *site = found->site;
    *size = (long)found->bytes;
    return found->start + found->bytes - address;
}

const char *describe_memory(const char *address) {
    static char text[600];
    Allocation *found = allocation_of(address);
    if (found)
        snprintf(text, sizeof text, "byte %ld of the %zu allocated at %s",
                 (long)(address - found->start), found->bytes, place(found->site));
    else
        snprintf(text, sizeof text, "main memory at %p", (const void *)address);
    return text;
}
