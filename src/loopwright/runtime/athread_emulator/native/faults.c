/* Faults end the run with a message that names a line of the program, and the trace of a run. */

#include "emulator.h"

#include <signal.h>
#include <unistd.h>

enum { FAULT_STATUS = 97 };

static FILE *trace;
static const char *fault_path;

const char *file_of(int site) {
    return lw_sites[site].file;
}

int line_of(int site) {
    return lw_sites[site].line;
}

const char *place(int site) {
    static char texts[8][512];
    static int at;
    char *text = texts[at++ % 8];
    snprintf(text, sizeof texts[0], "%s:%d", file_of(site), line_of(site));
    return text;
}

_Noreturn void fault(int site, const char *format, ...) {
    char text[4096];
    int n = snprintf(text, sizeof text, "%s: ", place(site));
    if (current)
        n += snprintf(text + n, sizeof text - n, "CPE %d (row %d, column %d) ", current->id,
                      row_of(current->id), column_of(current->id));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + n, sizeof text - n, format, arguments);
    va_end(arguments);
    fflush(stdout);
    close_trace();
    FILE *file = fault_path ? fopen(fault_path, "w") : NULL;
    if (file) {
        fputs(text, file);
        fclose(file);
    } else {
        fprintf(stderr, "athread emulator: %s\n", text);
    }
    _exit(FAULT_STATUS);
}

/* The stack of a CPE may be what has overflowed, so this runs on one of its own. */
static void on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    const char *address = info->si_addr;
    const char *what = number == SIGFPE    ? "divides an integer by zero"
                       : number == SIGILL  ? "runs an illegal instruction"
                       : number == SIGABRT ? "aborts"
                                           : NULL;
    if (what) fault(lw_call_site, "%s%s", current ? "" : "the host ", what);
    if (current && ldm_owner(address) != MAIN_MEMORY)
        fault(lw_call_site, "overflows its stack by far: address %p", (const void *)address);
    fault(lw_call_site, "%suses address %p, where there is no memory", current ? "" : "the host ",
          (const void *)address);
}

void set_up_faults(void) {
    fault_path = getenv("ATHREAD_FAULT");
    static char stack[1 << 16];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&own, NULL);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
        sigaction(numbers[i], &action, NULL);
}

void open_trace(void) {
    const char *path = getenv("ATHREAD_TRACE");
    trace = path ? fopen(path, "w") : NULL;
    trace_host("T 1 %s %d", lw_machine.name, cpe_count());
}

void close_trace(void) {
    if (trace) fclose(trace);
    trace = NULL;
}

void trace_host(const char *format, ...) {
    if (!trace) return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(trace, format, arguments);
    va_end(arguments);
    putc('\n', trace);
}

static void add_work(Work *to, const Work *more) {
    to->quarter_slots += more->quarter_slots;
    to->accesses += more->accesses;
    to->global_accesses += more->global_accesses;
    to->flops += more->flops;
    to->quarter_cycles += quarter_cycles(more);
}

static void end_work(Cpe *cpe) {
    Work *work = &cpe->work;
    cpe->cycles += quarter_cycles(work) / 4;
    memset(work, 0, sizeof *work);
}

static void end_run(Cpe *cpe) {
    MessageRun *run = &cpe->run;
    if (run->kind && trace)
        fprintf(trace, "%c %d %ld %ld %ld %ld %ld %ld %ld %s\n", run->kind, cpe->id,
                run->work.quarter_slots, run->work.accesses, run->work.global_accesses,
                run->work.flops, run->work.quarter_cycles, run->id, run->count, place(run->site));
    memset(run, 0, sizeof *run);
}

/* Messages come by the thousand: those of a run have one line, and one number, which is returned.
 * A run that is sent ends where a CPE does much else in between. */
long trace_message(Cpe *cpe, char kind, long id) {
    enum { MOST_BETWEEN = 64 };
    static long runs;
    MessageRun *run = &cpe->run;
    bool is_same = run->kind == kind && (kind == 's' || run->id == id);
    if (kind == 's' && cpe->work.accesses > MOST_BETWEEN) is_same = false;
    if (!is_same) {
        end_run(cpe);
        run->kind = kind;
        run->id = kind == 's' ? ++runs : id;
    }
    run->site = lw_call_site;
    ++run->count;
    /* A block goes on behind a message: what its arithmetic takes longer stays with the rest. */
    long left = cpe->work.block_quarters - 4 * cpe->work.block_accesses;
    if (left > 0) cpe->work.block_quarters -= left;
    add_work(&run->work, &cpe->work);
    end_work(cpe);
    if (left > 0) cpe->work.block_quarters = left;
    return run->id;
}

/* A line for a CPE begins with its work since the line before. */
void trace_cpe(Cpe *cpe, char kind, const char *format, ...) {
    Work *work = &cpe->work;
    end_run(cpe);
    if (trace) {
        fprintf(trace, "%c %d %ld %ld %ld %ld %ld ", kind, cpe->id, work->quarter_slots,
                work->accesses, work->global_accesses, work->flops, quarter_cycles(work));
        va_list arguments;
        va_start(arguments, format);
        vfprintf(trace, format, arguments);
        va_end(arguments);
        fprintf(trace, " %s\n", place(lw_call_site));
    }
    end_work(cpe);
}
