/*
 * work.h - how much work one client causes, and how much of it without sending data.
 *
 * A record of TLS need not carry data: key updates, hellos that ask for another handshake, alerts, empty
 * records and the pieces of a handshake carry none. OpenSSL reads on over such records until data comes, so a
 * client that sends nothing else would keep the loop to itself. Two things bound it.
 *
 * Debt. Each record without data is a debt of 1, and each record with data, in either direction, pays back 1.
 * A connection whose debt would become larger than TLS_WORK_DEBT_MAX is cut. The debt is not a count for the
 * connection's life: an honest client that changes its keys now and then would reach any such limit in a
 * stream that is long enough. Data does not clear the debt either: then one byte would pay for 64 key
 * updates, again and again. As it is, a hostile client can make at most half of its records dataless for
 * ever, and a client with at least as many records with data as without is never cut, however long it stays.
 *
 * Weight. Those who stay below the limit for ever cause work as well, so they wait behind the others. Each
 * record without data weighs TLS_WORK_WEIGHT, and each record with data takes 1 off: whoever sends more than
 * one without data for so many with data soon waits, and who has stopped doing so soon does not.
 *
 * Another handshake. Debt counts records, and one record can hold thousands of messages. OpenSSL answers each
 * hello that asks for another handshake with an alert, 4,096 of them in one record, before it reads on. With
 * TLS 1.2 the type of a record can be seen before the record is read. So a record of a handshake behind the
 * handshake is not read at all, and the connection is cut: no honest client has anything to send there, since
 * renegotiation is refused anyhow. The same holds for what stands behind the last message of the handshake,
 * in the same record. With TLS 1.3 every record shows itself as data, and OpenSSL itself takes one message a
 * record at most: a hello is an error, and so is anything behind a key update.
 *
 * Turns. One connection gets so many records and bytes in one turn of the loop. Then the others come first.
 *
 * No I/O, no clock, no OpenSSL: the numbers of the record types are those of TLS (RFC 8446, section 5.1).
 */
#ifndef TLS_WORK_H
#define TLS_WORK_H

#include "base/base.h"

enum {
    TLS_WORK_DEBT_MAX = 64, /* an honest handshake has at most 5 */
    TLS_WORK_PATIENT_DEBT =
        8,               /* from here on the connection is owing, and waits for its turn behind others */
    TLS_WORK_WEIGHT = 8, /* of one record without data */
    TLS_WORK_WEIGHT_MAX = 128, /* it gets no heavier; half of it is owing as well */
    TLS_WORK_TURN_RECORDS_MAX = 32,
    TLS_WORK_TURN_DATALESS_MAX = 4, /* a key update costs several times what a record with data does */
    TLS_WORK_TURN_BYTES_MAX = 64 * 1024,
};

enum {
    TLS_RECORD_HANDSHAKE = 22,
    TLS_RECORD_DATA = 23, /* the type of application data */
};

/* Zeroed: nothing has happened yet. */
struct tls_work {
    uint64_t dataless; /* records without data since the start; never decreases */
    uint32_t debt;     /* of them, those that no data has paid for */
    uint32_t weight;   /* see above; at most TLS_WORK_WEIGHT_MAX */
    uint32_t turn_records;
    uint32_t turn_dataless;
    uint32_t turn_bytes;
    bool is_undecided; /* the last record may carry data: nobody has seen any yet */
    bool is_open;      /* the handshake is done */
    bool is_cut;       /* the debt was too large, or another handshake was asked for; stays so */
};

/*
 * The header of a record came, with the type that it shows. TLS 1.3 shows TLS_RECORD_DATA for everything
 * that is encrypted: tls_work_inner follows then.
 */
void tls_work_record(struct tls_work *work, unsigned type);

/* The record that was announced last turned out to be of this type. */
void tls_work_inner(struct tls_work *work, unsigned type);

/*
 * The handshake is done. `has_more`: the last record holds something behind it, that OpenSSL has and has not
 * looked at.
 */
void tls_work_opened(struct tls_work *work, bool has_more);

/* The client has sent data, all of them of one record; or a record of ours has gone to the client. */
void tls_work_received(struct tls_work *work, size_t len);
void tls_work_sent(struct tls_work *work, size_t len);

/* A turn begins. */
void tls_work_begin_turn(struct tls_work *work);

/* Does it owe, or weigh, more than a handshake and an honest key update leave behind? */
bool tls_work_is_owing(const struct tls_work *work);

/* Has it had its share of this turn? */
bool tls_work_turn_is_over(const struct tls_work *work);

#endif
