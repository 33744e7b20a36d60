/*
 * work.c - counts the records and bytes of one connection: its debt, its weight, its share of a
 * turn.
 */
#include "tls/work.h"

static void work_add_debt(struct tls_work *work)
{
    if (work->is_cut)
        return; /* what follows is not looked into */
    if (work->debt == TLS_WORK_DEBT_MAX) {
        work->is_cut = true;
        return;
    }
    work->debt++;
    work->weight = (uint32_t)min_u64((uint64_t)work->weight + TLS_WORK_WEIGHT, TLS_WORK_WEIGHT_MAX);
    work->dataless++;
    work->turn_dataless++;
    assert(work->debt <= work->dataless);
}

static void work_pay(struct tls_work *work, size_t len)
{
    if (work->debt > 0)
        work->debt--;
    if (work->weight > 0)
        work->weight--;
    work->turn_bytes = (uint32_t)min_u64((uint64_t)work->turn_bytes + len, TLS_WORK_TURN_BYTES_MAX);
}

/* Saturates: the caller only needs to know whether the limit is reached. */
static void work_count_record(struct tls_work *work)
{
    if (work->turn_records < TLS_WORK_TURN_RECORDS_MAX)
        work->turn_records++;
}

/* Another record begins, and nobody has seen data of the last one: it was empty. */
static void work_decide(struct tls_work *work)
{
    if (!work->is_undecided)
        return;
    work->is_undecided = false;
    work_add_debt(work);
}

void tls_work_record(struct tls_work *work, unsigned type)
{
    work_decide(work);
    work_count_record(work);
    if (type == TLS_RECORD_HANDSHAKE && work->is_open)
        work->is_cut = true;
    else if (type == TLS_RECORD_DATA)
        work->is_undecided = true;
    else
        work_add_debt(work);
}

void tls_work_inner(struct tls_work *work, unsigned type)
{
    if (type != TLS_RECORD_DATA)
        work_decide(work);
}

void tls_work_opened(struct tls_work *work, bool has_more)
{
    assert(!work->is_open);

    work->is_open = true;
    if (has_more)
        work->is_cut = true;
}

void tls_work_received(struct tls_work *work, size_t len)
{
    assert(len > 0);

    work->is_undecided = false;
    work_pay(work, len);
}

void tls_work_sent(struct tls_work *work, size_t len)
{
    assert(len > 0);

    work_count_record(work);
    work_pay(work, len);
}

void tls_work_begin_turn(struct tls_work *work)
{
    work->turn_records = 0;
    work->turn_dataless = 0;
    work->turn_bytes = 0;
}

bool tls_work_is_owing(const struct tls_work *work)
{
    return work->debt >= TLS_WORK_PATIENT_DEBT || work->weight >= TLS_WORK_WEIGHT_MAX / 2;
}

bool tls_work_turn_is_over(const struct tls_work *work)
{
    return work->turn_records >= TLS_WORK_TURN_RECORDS_MAX ||
           work->turn_dataless >= TLS_WORK_TURN_DATALESS_MAX || work->turn_bytes >= TLS_WORK_TURN_BYTES_MAX;
}
