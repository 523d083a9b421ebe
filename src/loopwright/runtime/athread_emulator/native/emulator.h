/* The emulator's own parts: CPEs as fibres, their LDM, transfers, messages, clocks, faults, trace.
 *
 * One core group, one fibre for each CPE, all on one host thread: a fibre runs until it waits. In
 * which order fibres run and transfers end is drawn from a seed, so that a run can be repeated.
 *
 * Sources are instrumented (instrument_assembly.py): before every memory access and every basic
 * block they call one of the functions of access.c, and before every call `lw_call_site` says
 * where they are.
 *
 * All sources are one unit of translation (athread_build.py), and what they share is static: a
 * program may have names like `current` or `place` itself. Global are the functions of Athread, and
 * those that begin with lw_.
 */
#ifndef LW_EMULATOR_H
#define LW_EMULATOR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CPES = 64, HOST = 64, CLOCKS = 65, NOBODY = -1, MAIN_MEMORY = -2 };
#if defined(__APPLE__)
#define LDM_VARIABLE __attribute__((section("__DATA,lw_ldm"), used))
#else
#define LDM_VARIABLE __attribute__((section("lw_ldm"), used))
#endif

enum { POISON = 0xff };       /* as a double or a float: not a number */
enum { MESSAGE_BYTES = 64, MESSAGES = 4 }; /* a receive buffer has four entries */

/* -- what the build writes for a program ---------------------------------------------------------- */

struct lw_machine {
    const char *name;
    int rows, columns;
    long ldm_bytes, dma_unit;
};
struct lw_site {
    const char *file;
    int line;
    int quarter_slots; /* of the block's floating-point pipeline, in quarters of a vector */
    int flops;         /* of the block */
    bool is_helper;    /* in a function of a generated header: its caller's line is told */
};
struct lw_variable { /* of the LDM, by its declaration */
    char *start;
    long bytes;
    const char *name;
};
extern const struct lw_machine lw_machine;
extern const struct lw_site lw_sites[];
extern int lw_call_site;
static int told_site(int site); /* the site to tell the user: that of the caller for a helper's */

/* -- CPEs ---------------------------------------------------------------------------------------- */

typedef uint32_t Clock;

typedef enum { IDLE, READY, POLLING, AT_BARRIER, RECEIVING, SENDING, ENDED } State;

typedef enum { GET, PUT, BROADCAST, REMOTE_PUT, REMOTE_GET, REMOTE_BROADCAST } Kind;

typedef struct Request {
    struct Request *next;
    long dma_barriers; /* of its CPE, when it was issued */
    long id;
    Kind kind;
    const char *name; /* of the function that made it */
    int cpe, site;
    char *memory; /* main memory, or the LDM at the other end as the issuer names it */
    char *ldm;
    long len, bsize, stride;
    uint64_t targets; /* CPEs that receive */
    volatile int *reply, *remote_reply;
    bool is_done;
    uint64_t unseen; /* CPEs that have yet to see it done: issuer, and targets with a reply */
    Clock seen;      /* the issuer's clock when it saw it done; 0: it has not */
} Request;

typedef struct Arrival { /* data that another CPE has brought into this LDM */
    struct Arrival *next;
    char *start;
    long bytes;
    int from, site;
    Clock clock; /* of the issuer when it saw the end */
} Arrival;

typedef struct {
    unsigned char value[MESSAGE_BYTES];
    int bytes, from, site;
    long id;
    Clock clocks[CLOCKS];
} Message;

typedef struct {
    Message entries[MESSAGES];
    int first, count;
} MessageQueue;

typedef struct { /* since the last line of the trace */
    long quarter_slots, accesses, global_accesses, flops;
    long quarter_cycles; /* of blocks that ended: of each the fuller pipeline */
    long block_quarters, block_accesses; /* of the block that runs */
} Work;

/* The cycles of what a CPE did, in quarters: what stands in one block runs in both pipelines at
 * once, and blocks run one after another. */
static inline long quarter_cycles(const Work *work) {
    long floats = work->block_quarters, accesses = 4 * work->block_accesses;
    return work->quarter_cycles + (floats > accesses ? floats : accesses);
}

typedef struct { /* messages that a CPE sent, or took of one such run, without anything between */
    char kind; /* 's', 'r', or none */
    long id, count;
    int site;
    Work work;
} MessageRun;

typedef struct {
    int id;
    State state;
    int site;       /* where it waits */
    int caller;     /* the last site outside of helpers */
    int barrier;    /* scope that it waits at */
    void *context;  /* the stack pointer of the fibre while it does not run */
    char *statics;  /* its copy of the static LDM while it does not run */
    char *stack_top;
    long heap_used, stack_used; /* bytes of the LDM; the stack at its deepest */
    int deepest;                /* site where the stack was deepest */
    void (*function)(void *);
    void *argument;
    Arrival *arrivals;
    Arrival *unfenced; /* what it has got itself, with no memory barrier since; strict only */
    long dma_barriers; /* calls of athread_dma_barrier so far */
    long landed;       /* puts before so many of them have come to main memory */
    MessageQueue from_row, from_column;
    Clock clocks[CLOCKS];
    Work work;
    MessageRun run;
    long cycles; /* of all its work so far */
    long idle_reads, same_reads, idle_blocks;
    const volatile void *polled;
} Cpe;

static Cpe cpes[MOST_CPES];
static Cpe *current; /* null while the host runs */
static Clock host_clocks[CLOCKS];
static bool team_is_active;
static long progress; /* grows with whatever may let a CPE go on */

static int cpe_count(void);
static int row_of(int cpe);
static int column_of(int cpe);
static uint64_t team_members(void);      /* CPEs that have been started and not joined */
static uint64_t row_members(int cpe);
static uint64_t column_members(int cpe);
static unsigned draw(unsigned limit);
static void wait_here(State state, int site); /* let others run until this one is ready */
static void poll_again(int site);             /* let others run, this one stays ready */
static void run_team_once(void);
static Cpe *need_cpe(const char *name); /* the running one; a fault where the host calls */

/* -- LDM ------------------------------------------------------------------------------------------- */

static void set_up_ldm(void);
static void poison_stack(Cpe *cpe);
static void swap_in(Cpe *cpe);
static void swap_out(Cpe *cpe);
static int ldm_owner(const volatile void *address); /* a CPE, NOBODY: static, MAIN_MEMORY: none */
static bool is_own_ldm(const volatile void *address, long bytes);
static void *in_ldm_of(int cpe, const volatile void *address); /* where the CPE's bytes lie now */
static void *as_named_by(int cpe, const volatile void *address);
static long static_bytes(void);
static void check_stack(Cpe *cpe, const char *stack_pointer, int site);
static void require_ldm(Cpe *cpe, int site);
static const char *describe(const volatile void *address); /* a name for messages; overwritten later */

/* -- transfers --------------------------------------------------------------------------------------- */

enum { ROW_OF_TEAM = 1, COLUMN_OF_TEAM = 2, WHOLE_TEAM = 3 };

static uint64_t targets_of(int which); /* CPEs; 0 for none of these */
/* Start a transfer between main memory and the LDM; `bsize` 0: one block. */
static void transfer(const char *name, Kind kind, char *memory, char *ldm, long len, long bsize,
                     long stride, volatile int *reply, uint64_t targets);
/* Start one from LDM to LDM; one of the two replies may be null. */
static int remote(const char *name, Kind kind, char *local, volatile int *local_reply, long len,
                  char *other, volatile int *remote_reply, uint64_t targets);
static void wait_for(const char *name, volatile int *reply, int value);
static void check_ldm_access(Cpe *cpe, const volatile char *start, long bytes, bool is_write, int site);
static bool poll_reply(Cpe *cpe, const volatile void *reply);
static bool is_reply(Cpe *cpe, const volatile void *address);
static void check_no_request_left(Cpe *cpe);
static void describe_reply(Cpe *cpe, const volatile void *reply, char *text, size_t size);
static void forget_arrivals(Cpe *cpe); /* those that a barrier or message has ordered */
static void forget_unfenced(Cpe *cpe);
static void check_no_message_left(void);

/* -- order of accesses to main memory -------------------------------------------------------------- */

static Clock *clocks_of(int who);
static void join_clocks(Clock *into, const Clock *from);
static bool is_strict; /* ATHREAD_STRICT: what the machine need not do is not relied on */
static void set_up_order(void);
static void start_phase(void); /* all that is past comes before all that is to come */
/* `by` is the function that transfers the bytes; null: the program itself reads or writes them. */
static void note_access(int who, const char *start, long bytes, bool is_write, int site, const char *by);

static void note_allocation(void *start, size_t bytes, int site);
static void forget_allocation(void *start);
/* How many bytes follow in the known allocation around `address`; -1 where there is none. */
static long bytes_left(const char *address, int *site, long *size);
static const char *describe_memory(const char *address);

/* -- faults and trace --------------------------------------------------------------------------------- */

static _Noreturn void fault(int site, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *file_of(int site);
static int line_of(int site);
static const char *place(int site); /* file:line, for messages */
static void set_up_faults(void);

static void open_trace(void);
static void close_trace(void);
static void trace_cpe(Cpe *cpe, char kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
static long trace_message(Cpe *cpe, char kind, long run);
static void trace_host(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
