/* Calls every function with arguments that are null, misaligned or out of range, and with valid
 * ones. ASan and UBSan watch. Exits with 0 if each returns what the header says.
 */
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <millstream.h>

#define EXPECT(expected, call) expect((expected), (call), #call, __LINE__)

static void expect(long long expected, long long found, const char *call, int line)
{
    if (expected != found) {
        fprintf(stderr, "line %d: %s is %lld, not %lld\n", line, call, found, expected);
        exit(1);
    }
}

/* The message of a failure is cut to any size. */
static void messages(struct ms_options *options, struct ms_contract *contract)
{
    struct ms_scheduler *scheduler;
    options->discipline = "none";
    for (size_t bytes = 0; bytes < 20; bytes++) {
        char *message = malloc(bytes);
        if (message == NULL && bytes > 0)
            exit(1);
        EXPECT(MS_ERROR_DISCIPLINE,
               ms_scheduler_new(options, contract, 1, &scheduler, message, bytes));
        if (bytes > 0)
            EXPECT(bytes - 1, strlen(message));
        free(message);
    }
    EXPECT(MS_ERROR_DISCIPLINE, ms_scheduler_new(options, contract, 1, &scheduler, NULL, 99));
    EXPECT(1, scheduler == NULL);
    options->discipline = "fifo";
}

static void construction(void)
{
    struct ms_options options;
    struct ms_contract contract;
    struct ms_scheduler *scheduler;
    EXPECT(MS_ERROR_POINTER, ms_options_init(NULL, sizeof options));
    EXPECT(MS_ERROR_SIZE, ms_options_init(&options, sizeof options - 1));
    EXPECT(MS_OK, ms_options_init(&options, sizeof options));
    EXPECT(MS_ERROR_POINTER, ms_contract_init(NULL, sizeof contract));
    EXPECT(MS_ERROR_SIZE, ms_contract_init(&contract, 0));
    EXPECT(MS_OK, ms_contract_init(&contract, sizeof contract));

    EXPECT(MS_ERROR_POINTER, ms_scheduler_new(NULL, &contract, 1, &scheduler, NULL, 0));
    EXPECT(MS_ERROR_POINTER, ms_scheduler_new(&options, &contract, 1, &scheduler, NULL, 0));
    messages(&options, &contract);
    EXPECT(MS_ERROR_POINTER, ms_scheduler_new(&options, NULL, 1, &scheduler, NULL, 0));
    EXPECT(MS_ERROR_POINTER, ms_scheduler_new(&options, &contract, 1, NULL, NULL, 0));
    EXPECT(MS_ERROR_RANGE, ms_scheduler_new(&options, &contract, SIZE_MAX, &scheduler, NULL, 0));
    alignas(16) char bytes[2 * sizeof options] = {0};
    void *misaligned = bytes + 1;
    EXPECT(MS_ERROR_POINTER, ms_options_init(misaligned, sizeof options));
    EXPECT(MS_ERROR_POINTER, ms_scheduler_new(misaligned, &contract, 1, &scheduler, NULL, 0));
    options.size++;
    EXPECT(MS_ERROR_SIZE, ms_scheduler_new(&options, &contract, 1, &scheduler, NULL, 0));
    options.size--;
    char name[100];
    memset(name, 'x', sizeof name);
    options.discipline = name;
    EXPECT(MS_ERROR_RANGE, ms_scheduler_new(&options, &contract, 1, &scheduler, NULL, 0));
    options.discipline = "\xff";
    EXPECT(MS_ERROR_RANGE, ms_scheduler_new(&options, &contract, 1, &scheduler, NULL, 0));
    options.discipline = "table";
    options.table_entries = 1;
    EXPECT(MS_ERROR_POINTER, ms_scheduler_new(&options, &contract, 1, &scheduler, NULL, 0));
    uint32_t entry = 1;
    options.table = &entry;
    EXPECT(MS_ERROR_RANGE, ms_scheduler_new(&options, &contract, 1, &scheduler, NULL, 0));
    options.discipline = "fifo";
    EXPECT(MS_ERROR_RANGE, ms_scheduler_new(&options, &contract, 1, &scheduler, NULL, 0));
    options.table_entries = 0;
    EXPECT(MS_OK, ms_scheduler_new(&options, NULL, 0, &scheduler, NULL, 0));
    EXPECT(MS_ERROR_STREAM, ms_enqueue(scheduler, 0, 0, 0, 0));
    ms_scheduler_free(scheduler);
}

static void without_scheduler(void)
{
    struct ms_packet packet = {0};
    struct ms_decision decision;
    struct ms_counters counters;
    size_t count;
    uint64_t time_ns;
    EXPECT(MS_ERROR_POINTER, ms_enqueue(NULL, 0, 0, 0, 0));
    EXPECT(MS_ERROR_POINTER, ms_enqueue_packet(NULL, &packet, 0));
    EXPECT(MS_ERROR_POINTER, ms_enqueue_burst(NULL, &packet, 1, 0, &count));
    EXPECT(MS_ERROR_POINTER, ms_dequeue(NULL, 0, &decision));
    EXPECT(MS_ERROR_POINTER, ms_dequeue_burst(NULL, 0, &decision, 1, &count));
    EXPECT(MS_ERROR_POINTER, ms_take_drops(NULL, &decision, 1, &count));
    EXPECT(MS_ERROR_POINTER, ms_next_eligible(NULL, &time_ns));
    EXPECT(MS_ERROR_POINTER, ms_set_eligible(NULL, 0, 1, 0));
    EXPECT(MS_ERROR_POINTER, ms_add_credits(NULL, 0, 1, 0));
    EXPECT(MS_ERROR_POINTER, ms_charge(NULL, 0, 1, 0));
    EXPECT(MS_ERROR_POINTER, ms_stream_counters(NULL, 0, &counters));
    EXPECT(0, ms_backlog(NULL));
    EXPECT(0, ms_streams(NULL));
    EXPECT(0, ms_pending_drops(NULL));
    ms_scheduler_free(NULL);
}

static void calls(void)
{
    struct ms_options options;
    struct ms_contract contracts[2];
    struct ms_scheduler *scheduler;
    EXPECT(MS_OK, ms_options_init(&options, sizeof options));
    for (int at = 0; at < 2; at++)
        EXPECT(MS_OK, ms_contract_init(&contracts[at], sizeof contracts[at]));
    options.discipline = "wf2q+";
    options.structure = "heap";
    contracts[1].max_rate_bps = 8000000;
    EXPECT(MS_OK, ms_scheduler_new(&options, contracts, 2, &scheduler, NULL, 0));
    EXPECT(2, ms_streams(scheduler));

    struct ms_packet packets[3] = {{.bytes = 100}, {.bytes = 1, .stream = 1}, {.bytes = 100}};
    struct ms_decision decisions[4];
    size_t count;
    EXPECT(MS_ERROR_POINTER, ms_enqueue_packet(scheduler, NULL, 0));
    EXPECT(MS_ERROR_POINTER, ms_enqueue_burst(scheduler, NULL, 1, 0, &count));
    EXPECT(MS_ERROR_POINTER, ms_enqueue_burst(scheduler, packets, 3, 0, NULL));
    EXPECT(MS_ERROR_RANGE, ms_enqueue_burst(scheduler, packets, SIZE_MAX, 0, &count));
    EXPECT(MS_OK, ms_enqueue_burst(scheduler, NULL, 0, 0, &count));
    EXPECT(0, count);
    EXPECT(MS_OK, ms_enqueue_burst(scheduler, packets, 3, 0, &count));
    EXPECT(0, count);
    EXPECT(3, ms_backlog(scheduler));
    EXPECT(MS_ERROR_POINTER, ms_dequeue(scheduler, 0, NULL));
    EXPECT(3, ms_backlog(scheduler));
    EXPECT(MS_ERROR_POINTER, ms_dequeue_burst(scheduler, 0, NULL, 4, &count));
    EXPECT(MS_ERROR_POINTER, ms_dequeue_burst(scheduler, 0, decisions, 4, NULL));
    EXPECT(MS_OK, ms_dequeue_burst(scheduler, 0, decisions, 4, &count));
    EXPECT(2, count);
    EXPECT(MS_OK, ms_charge(scheduler, 0, -10, 0));
    uint64_t time_ns;
    EXPECT(MS_ERROR_POINTER, ms_next_eligible(scheduler, NULL));
    EXPECT(MS_OK, ms_next_eligible(scheduler, &time_ns));
    EXPECT(1000, time_ns);
    EXPECT(MS_OK, ms_dequeue(scheduler, 1000, decisions));
    EXPECT(1, decisions[0].stream);
    EXPECT(MS_EMPTY, ms_dequeue(scheduler, 1000, decisions));
    EXPECT(MS_EMPTY, ms_next_eligible(scheduler, &time_ns));
    EXPECT(1, time_ns == MS_NONE);
    EXPECT(MS_ERROR_TIME, ms_dequeue(scheduler, 999, decisions));
    EXPECT(MS_ERROR_STREAM, ms_set_eligible(scheduler, 2, 0, 1000));
    EXPECT(MS_OK, ms_set_eligible(scheduler, 1, 0, 1000));
    EXPECT(MS_OK, ms_add_credits(scheduler, 1, UINT64_MAX, UINT64_MAX));
    EXPECT(MS_OK, ms_take_drops(scheduler, NULL, 0, &count));
    EXPECT(MS_ERROR_POINTER, ms_take_drops(scheduler, NULL, 1, &count));
    EXPECT(MS_ERROR_POINTER, ms_stream_counters(scheduler, 0, NULL));
    ms_scheduler_free(scheduler);
}

int main(void)
{
    EXPECT(MS_ABI_MAJOR << 16 | MS_ABI_MINOR << 8 | MS_ABI_PATCH, ms_abi_version());
    for (ms_status status = -20; status < 10; status++)
        EXPECT(1, strlen(ms_error_text(status)) > 3);
    construction();
    without_scheduler();
    calls();
    return 0;
}
