/* Which accesses to main memory are ordered: by spawn and join, barriers, messages; others race.
 *
 * Vector clocks, with the host as one more thread. For every word of main memory that CPEs use, the
 * last write is kept with its clock, and which CPEs have read it since the last point at which all
 * of the team met. A read counts from the beginning of that phase: a race is never reported where
 * there is none.
 *
 * A put that has ended has left the LDM, and need not have come to main memory. With ATHREAD_STRICT
 * its own CPE must not read the words before it has met others, either, or get them before a
 * barrier of its requests (athread_dma_barrier). When a get behind such a barrier has ended, so have
 * the puts before it.
 */

#include "emulator.h"

enum { PAGE = 4096, WORD = 4, BUCKETS = 1 << 16 };

typedef struct {
    uint64_t readers; /* of phase `read_phase` */
    Clock write_clock;
    uint32_t read_phase;
    int write_site, read_site;
    int8_t writer; /* -1: nobody */
    bool host_reads, is_put;
    long dma_barriers; /* of the writer, when it put the word */
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
bool is_strict;
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

void note_access(int who, const char *start, long bytes, bool is_write, int site, const char *by) {
    const Clock *known = clocks_of(who);
    uintptr_t first = (uintptr_t)start / WORD, last = ((uintptr_t)start + bytes - 1) / WORD;
    for (uintptr_t at = first; at <= last; ++at) {
        Word *word = &page_of(at * WORD / PAGE)->words[at % (PAGE / WORD)];
        const char *address = (const char *)(at * WORD);
        if (word->writer >= 0 && word->writer != who && known[word->writer] < word->write_clock)
            report(address, site, by, is_write, word->writer, word->write_site, true);
        if (is_strict && !is_write && word->is_put && word->writer == who &&
            known[who] == word->write_clock &&
            (by ? word->dma_barriers == cpes[who].dma_barriers
                : word->dma_barriers >= cpes[who].landed))
            report_not_landed(word, address, site, by);
        if (word->read_phase != phase) {
            word->readers = 0;
            word->host_reads = false;
        }
        if (!is_write) {
            word->read_phase = phase;
            word->read_site = site;
            if (who == HOST)
                word->host_reads = true;
            else
                word->readers |= 1ull << who;
            continue;
        }
        uint64_t others = who == HOST ? word->readers : word->readers & ~(1ull << who);
        for (int i = 0; others; ++i, others >>= 1)
            if (others & 1 && known[i] < phase_clocks[i])
                report(address, site, by, true, i, word->read_site, false);
        if (word->host_reads && who != HOST && known[HOST] < phase_clocks[HOST])
            report(address, site, by, true, HOST, word->read_site, false);
        word->writer = (int8_t)who;
        word->write_clock = known[who];
        word->write_site = site;
        word->is_put = by != NULL;
        if (word->is_put) word->dma_barriers = cpes[who].dma_barriers;
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
