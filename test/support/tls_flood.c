/*
 * tls_flood.c - a TLS client that sends records without data, as many as it is told to.
 *
 * Driven by functional/test_tls_floods.py, and by bench/tls_floods.py.
 *
 *     tls-flood --port PORT --kind KIND [--records N] [--data-every N] [--seconds S] [--processes N]
 *
 * The kinds are in a table below. "key-update": TLS 1.3, new keys, again and again, each time with the wish
 * that the server changes its own, too. "renegotiate": hellos that ask for another handshake. "empty":
 * application data, of no bytes. "alert": warnings. "change": the record that announces encryption.
 * "...-packed": as many such messages in each record as fit. "...-1.3": with TLS 1.3 instead of 1.2.
 * "handshake": no records at all, only the handshake. "spin": no connection at all, but the CPU that the
 * others take, for comparison.
 *
 * Sends --records of them in a row, and asks for /health at the end. With --data-every it asks after each so
 * many of them as well, and waits for the answer. With --seconds it connects again when it is done or was
 * cut, until the time is over, in each of --processes. Prints one line of JSON for each process: what was
 * sent, and what came back.
 *
 * OpenSSL has no call that sends most of these records, so they are encrypted here: AES-128-GCM with the keys
 * of the session, from the first record behind the handshake on. With TLS 1.2 what the server sends is not
 * decrypted then; its records are counted by their types. With TLS 1.3 OpenSSL reads it.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>

#include "base/base.h"

enum {
    KEY_LEN = 16,
    SECRET_LEN = 32, /* of SHA-256 */
    SALT_LEN = 4,
    NONCE_LEN = 12,
    TAG_LEN = 16,
    HEADER_LEN = 5,
    SHOWN_NONCE_LEN = 8,
    PATIENCE_MS = 60 * 1000,
    BATCH = 16 * 1024,
    RECORD_MAX = 16 * 1024, /* bytes of clear text in one */
    TYPE_CHANGE = 20,
    TYPE_ALERT = 21,
    TYPE_HANDSHAKE = 22,
    TYPE_DATA = 23,
};

enum how {
    RECORDS,     /* as the row says */
    KEY_UPDATES, /* of OpenSSL, because each changes the keys */
    NO_RECORDS,
    NO_CONNECTION,
};

struct kind {
    const char *name;
    const char *message;
    size_t message_len;
    enum how how;
    int version;
    unsigned type;
    bool is_packed; /* so many messages in each record as fit */
    bool is_clear;  /* not encrypted */
    bool is_behind; /* TLS 1.2: in the client's last record of the handshake, behind its message */
};

/* Of a hello the server looks at the first four bytes before it refuses. */
#define HELLO .type = TYPE_HANDSHAKE, .message = "\1\0\0", .message_len = 4
#define KEY_UPDATE .type = TYPE_HANDSHAKE, .message = "\30\0\0\1", .message_len = 5
#define WARNING .type = TYPE_ALERT, .message = "\1\132", .message_len = 2
#define NOTHING .type = TYPE_DATA, .message = "", .message_len = 0
#define CHANGE .type = TYPE_CHANGE, .message = "\1", .message_len = 1

static const struct kind kinds[] = {
    {.name = "key-update", .how = KEY_UPDATES, .version = TLS1_3_VERSION},
    {.name = "key-update-packed", .how = RECORDS, .version = TLS1_3_VERSION, KEY_UPDATE, .is_packed = true},
    {.name = "renegotiate", .how = RECORDS, .version = TLS1_2_VERSION, HELLO},
    {.name = "renegotiate-packed", .how = RECORDS, .version = TLS1_2_VERSION, HELLO, .is_packed = true},
    {.name = "renegotiate-behind",
     .how = RECORDS,
     .version = TLS1_2_VERSION,
     HELLO,
     .is_packed = true,
     .is_behind = true},
    {.name = "renegotiate-packed-1.3", .how = RECORDS, .version = TLS1_3_VERSION, HELLO, .is_packed = true},
    {.name = "empty", .how = RECORDS, .version = TLS1_2_VERSION, NOTHING},
    {.name = "empty-1.3", .how = RECORDS, .version = TLS1_3_VERSION, NOTHING},
    {.name = "alert", .how = RECORDS, .version = TLS1_2_VERSION, WARNING},
    {.name = "alert-packed", .how = RECORDS, .version = TLS1_2_VERSION, WARNING, .is_packed = true},
    {.name = "alert-1.3", .how = RECORDS, .version = TLS1_3_VERSION, WARNING},
    {.name = "alert-packed-1.3", .how = RECORDS, .version = TLS1_3_VERSION, WARNING, .is_packed = true},
    {.name = "change", .how = RECORDS, .version = TLS1_2_VERSION, CHANGE},
    {.name = "change-packed", .how = RECORDS, .version = TLS1_2_VERSION, CHANGE, .is_packed = true},
    {.name = "change-1.3", .how = RECORDS, .version = TLS1_3_VERSION, CHANGE, .is_clear = true},
    {.name = "handshake", .how = NO_RECORDS, .version = TLS1_3_VERSION},
    {.name = "spin", .how = NO_CONNECTION, .version = TLS1_3_VERSION},
};
static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct options {
    const struct kind *kind;
    int port;
    unsigned long records;
    unsigned long data_every;
    unsigned long seconds;
    unsigned long processes;
};

struct found {
    unsigned long connections;
    unsigned long failed; /* no handshake came about */
    unsigned long sent;   /* records without data */
    unsigned long answers;
    unsigned long cut;    /* the server ended it before the last answer */
    unsigned long alerts; /* that the server sent */
};

struct client {
    SSL *ssl;
    BIO *in;
    BIO *out; /* what OpenSSL wants to send: gathered, and sent in one go */
    int fd;
    bool is_1_3;
    EVP_CIPHER_CTX *cipher;           /* of what is encrypted here */
    unsigned char secret[SECRET_LEN]; /* TLS 1.3: of what the client sends */
    unsigned char salt[NONCE_LEN];    /* TLS 1.2: the first four bytes */
    uint64_t sequence;
    struct found *found;
    char batch[BATCH + RECORD_MAX + 256];
    size_t batch_len;
};

static void must(bool is_good, const char *what)
{
    if (is_good)
        return;
    (void)fprintf(stderr, "tls-flood: %s\n", what);
    exit(2);
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t count = send(fd, data, len, MSG_NOSIGNAL);

        if (count <= 0)
            return false;
        data += count;
        len -= (size_t)count;
    }
    return true;
}

static bool flush_openssl(struct client *client)
{
    char *data;
    long len = BIO_get_mem_data(client->out, &data);
    bool is_sent = len <= 0 || send_all(client->fd, data, (size_t)len);

    (void)BIO_reset(client->out);
    return is_sent;
}

static bool flush_batch(struct client *client)
{
    bool is_sent = send_all(client->fd, client->batch, client->batch_len);

    client->batch_len = 0;
    return is_sent;
}

static int connect_to(int port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    const int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0, "no socket");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* Waits for something from the server. */
static bool fill(struct client *client)
{
    char data[16384];
    ssize_t count = recv(client->fd, data, sizeof(data), 0);

    return count > 0 && BIO_write(client->in, data, (int)count) == count;
}

static void add_behind(struct client *client, const struct kind *kind);

static bool shake_hands(struct client *client, const struct kind *kind)
{
    for (;;) {
        int rc = SSL_do_handshake(client->ssl);
        int error = SSL_get_error(client->ssl, rc);

        if (kind->is_behind)
            add_behind(client, kind);
        if (!flush_openssl(client))
            return false;
        if (rc == 1)
            return true;
        if (error != SSL_ERROR_WANT_READ || !fill(client))
            return false;
    }
}

static void set_key(struct client *client, const unsigned char *key, uint64_t sequence)
{
    client->cipher = EVP_CIPHER_CTX_new();
    must(client->cipher && EVP_EncryptInit_ex(client->cipher, EVP_aes_128_gcm(), NULL, key, NULL) == 1,
         "no cipher");
    client->sequence = sequence;
}

/* The client's key and salt, of TLS 1.2 (RFC 5246, section 6.3; RFC 5288). */
static void derive_keys_1_2(struct client *client)
{
    unsigned char secret[SSL_MAX_MASTER_KEY_LENGTH];
    unsigned char block[2 * (KEY_LEN + SALT_LEN)];
    unsigned char seed[13 + 2 * SSL3_RANDOM_SIZE] = "key expansion";
    size_t secret_len = SSL_SESSION_get_master_key(SSL_get_session(client->ssl), secret, sizeof(secret));
    size_t len = sizeof(block);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_TLS1_PRF, NULL);

    (void)SSL_get_server_random(client->ssl, seed + 13, SSL3_RANDOM_SIZE);
    (void)SSL_get_client_random(client->ssl, seed + 13 + SSL3_RANDOM_SIZE, SSL3_RANDOM_SIZE);
    must(context && EVP_PKEY_derive_init(context) == 1 &&
             EVP_PKEY_CTX_set_tls1_prf_md(context, EVP_sha256()) == 1 &&
             EVP_PKEY_CTX_set1_tls1_prf_secret(context, secret, (int)secret_len) == 1 &&
             EVP_PKEY_CTX_add1_tls1_prf_seed(context, seed, sizeof(seed)) == 1 &&
             EVP_PKEY_derive(context, block, &len) == 1,
         "the keys cannot be derived");
    EVP_PKEY_CTX_free(context);
    memcpy(client->salt, block + (size_t)2 * KEY_LEN, SALT_LEN);
    set_key(client, block, 0);
}

/* HKDF-Expand-Label without a context (RFC 8446, section 7.1). */
static void expand(const unsigned char *secret, const char *label, unsigned char *ret, size_t len)
{
    unsigned char info[32] = {0, (unsigned char)len, (unsigned char)(6 + strlen(label))};
    size_t info_len = 3 + 6 + strlen(label) + 1; /* and the length of no context */
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, NULL);

    memcpy(info + 3, "tls13 ", 6);
    memcpy(info + 9, label, strlen(label));
    must(context && EVP_PKEY_derive_init(context) == 1 &&
             EVP_PKEY_CTX_set_hkdf_mode(context, EVP_PKEY_HKDEF_MODE_EXPAND_ONLY) == 1 &&
             EVP_PKEY_CTX_set_hkdf_md(context, EVP_sha256()) == 1 &&
             EVP_PKEY_CTX_set1_hkdf_key(context, secret, SECRET_LEN) == 1 &&
             EVP_PKEY_CTX_add1_hkdf_info(context, info, (int)info_len) == 1 &&
             EVP_PKEY_derive(context, ret, &len) == 1,
         "the keys cannot be derived");
    EVP_PKEY_CTX_free(context);
}

/* Of TLS 1.3 (RFC 8446, section 7.3). */
static void derive_keys_1_3(struct client *client)
{
    unsigned char key[KEY_LEN];

    expand(client->secret, "key", key, sizeof(key));
    expand(client->secret, "iv", client->salt, sizeof(client->salt));
    set_key(client, key, 0);
}

/* Keeps the secret of what the client sends, which OpenSSL tells as text: a label, a number, the secret. */
static void note_secret(const SSL *ssl, const char *line)
{
    struct client *client = SSL_get_app_data(ssl);
    const char *text = strrchr(line, ' ');

    if (strncmp(line, "CLIENT_TRAFFIC_SECRET_0 ", 24) != 0 || !text)
        return;
    for (unsigned i = 0; i < SECRET_LEN; i++)
        must(sscanf(text + 1 + (size_t)2 * i, "%2hhx", &client->secret[i]) == 1, "no secret");
}

/* With TLS 1.3, where the server's records all look the same from outside. */
static void note_alert(int is_ours, int version, int type, const void *data, size_t len, SSL *ssl, void *arg)
{
    struct client *client = arg;

    (void)version;
    (void)data;
    (void)len;
    (void)ssl;
    client->found->alerts += !is_ours && type == SSL3_RT_ALERT && client->is_1_3;
}

static void put_number(unsigned char *to, uint64_t number)
{
    for (unsigned i = 0; i < SHOWN_NONCE_LEN; i++)
        to[i] = (unsigned char)(number >> (56 - 8 * i));
}

static void put_header(unsigned char *to, unsigned type, size_t len)
{
    const unsigned char header[HEADER_LEN] = {(unsigned char)type, 3, 3, (unsigned char)(len >> 8),
                                              (unsigned char)len};

    memcpy(to, header, sizeof(header));
}

/* Encrypts `len` bytes to `to`; the tag follows them. */
static void encrypt(struct client *client, const unsigned char *nonce, const unsigned char *known,
                    size_t known_len, const void *data, size_t len, unsigned char *to)
{
    int count = 0;

    must(EVP_EncryptInit_ex(client->cipher, NULL, NULL, NULL, nonce) == 1 &&
             EVP_EncryptUpdate(client->cipher, NULL, &count, known, (int)known_len) == 1 &&
             EVP_EncryptUpdate(client->cipher, to, &count, data, (int)len) == 1 &&
             EVP_EncryptFinal_ex(client->cipher, to + len, &count) == 1 &&
             EVP_CIPHER_CTX_ctrl(client->cipher, EVP_CTRL_GCM_GET_TAG, TAG_LEN, to + len) == 1,
         "a record cannot be encrypted");
}

static size_t put_record_1_2(struct client *client, unsigned char *to, unsigned type, const void *data,
                             size_t len)
{
    unsigned char nonce[NONCE_LEN];
    unsigned char known[SHOWN_NONCE_LEN + HEADER_LEN] = {0};
    size_t body_len = SHOWN_NONCE_LEN + len + TAG_LEN;

    put_number(known, client->sequence);
    put_header(known + SHOWN_NONCE_LEN, type, len);
    memcpy(nonce, client->salt, SALT_LEN);
    put_number(nonce + SALT_LEN, client->sequence++);
    put_header(to, type, body_len);
    memcpy(to + HEADER_LEN, nonce + SALT_LEN, SHOWN_NONCE_LEN);
    encrypt(client, nonce, known, sizeof(known), data, len, to + HEADER_LEN + SHOWN_NONCE_LEN);
    return HEADER_LEN + body_len;
}

static size_t put_record_1_3(struct client *client, unsigned char *to, unsigned type, const void *data,
                             size_t len)
{
    unsigned char text[RECORD_MAX + 1];
    unsigned char nonce[NONCE_LEN];
    unsigned char number[SHOWN_NONCE_LEN];

    memcpy(text, data, len);
    text[len] = (unsigned char)type;
    put_number(number, client->sequence++);
    memcpy(nonce, client->salt, sizeof(nonce));
    for (unsigned i = 0; i < SHOWN_NONCE_LEN; i++)
        nonce[NONCE_LEN - SHOWN_NONCE_LEN + i] ^= number[i];
    put_header(to, TYPE_DATA, len + 1 + TAG_LEN);
    encrypt(client, nonce, to, HEADER_LEN, text, len + 1, to + HEADER_LEN);
    return HEADER_LEN + len + 1 + TAG_LEN;
}

static size_t put_record_clear(unsigned char *to, unsigned type, const void *data, size_t len)
{
    put_header(to, type, len);
    memcpy(to + HEADER_LEN, data, len);
    return HEADER_LEN + len;
}

/* Adds a record to the batch, encrypted as the session is. */
static void add_record(struct client *client, unsigned type, const void *data, size_t len)
{
    unsigned char *at = (unsigned char *)client->batch + client->batch_len;

    must(len <= RECORD_MAX && client->batch_len <= BATCH, "the batch is full");
    client->batch_len += client->is_1_3 ? put_record_1_3(client, at, type, data, len)
                                        : put_record_1_2(client, at, type, data, len);
}

/* As many messages as go into one record; returns how many bytes they have. */
static size_t put_messages(char *to, size_t room, const struct kind *kind)
{
    size_t count = kind->is_packed ? room / kind->message_len : 1;

    for (size_t i = 0; i < count; i++)
        memcpy(to + i * kind->message_len, kind->message, kind->message_len);
    return count * kind->message_len;
}

static void add_dataless(struct client *client, const struct kind *kind)
{
    char messages[RECORD_MAX];
    size_t len = put_messages(messages, sizeof(messages), kind);

    if (kind->is_clear)
        client->batch_len +=
            put_record_clear((unsigned char *)client->batch + client->batch_len, kind->type, messages, len);
    else
        add_record(client, kind->type, messages, len);
}

/*
 * The last record that OpenSSL wants to send, if it is the encrypted one of the handshake, once more with
 * other messages behind its own. The server hears of the first of them before that record, and of the others
 * without another one.
 */
static void add_behind(struct client *client, const struct kind *kind)
{
    enum { FINISHED_LEN = 16, LEN = HEADER_LEN + SHOWN_NONCE_LEN + FINISHED_LEN + TAG_LEN };
    unsigned char nonce[NONCE_LEN];
    char text[RECORD_MAX];
    char *data;
    long len = BIO_get_mem_data(client->out, &data);
    int count = 0;
    const unsigned char *last = (const unsigned char *)data + len - LEN;
    EVP_CIPHER_CTX *cipher;

    if (client->cipher || len <= LEN || last[0] != TYPE_HANDSHAKE || last[4] != LEN - HEADER_LEN)
        return;
    derive_keys_1_2(client);
    memcpy(nonce, client->salt, SALT_LEN);
    memcpy(nonce + SALT_LEN, last + HEADER_LEN, SHOWN_NONCE_LEN);
    cipher = EVP_CIPHER_CTX_new();
    must(cipher && EVP_CIPHER_CTX_copy(cipher, client->cipher) == 1 &&
             EVP_CipherInit_ex(cipher, NULL, NULL, NULL, nonce, 0) == 1 &&
             EVP_DecryptUpdate(cipher, (unsigned char *)text, &count, last + HEADER_LEN + SHOWN_NONCE_LEN,
                               FINISHED_LEN) == 1,
         "the end of the handshake cannot be read");
    EVP_CIPHER_CTX_free(cipher);
    memcpy(client->batch, data, (size_t)(len - LEN));
    client->batch_len = (size_t)(len - LEN);
    add_record(client, TYPE_HANDSHAKE, text,
               FINISHED_LEN + put_messages(text + FINISHED_LEN, sizeof(text) - FINISHED_LEN, kind));
    (void)BIO_reset(client->out);
    must(flush_batch(client), "the end of the handshake cannot be sent");
}

static bool send_dataless(struct client *client, const struct kind *kind)
{
    if (kind->how == KEY_UPDATES) {
        must(SSL_key_update(client->ssl, SSL_KEY_UPDATE_REQUESTED) == 1, "no key update");
        must(SSL_do_handshake(client->ssl) == 1, "a key update cannot be made");
        return BIO_pending(client->out) < BATCH || flush_openssl(client);
    }
    add_dataless(client, kind);
    return client->batch_len < BATCH || flush_batch(client);
}

/* Asks with TLS 1.3, and reads the answer. */
static bool ask(struct client *client)
{
    char answer[4096];
    int rc;

    if (client->cipher)
        add_record(client, TYPE_DATA, request, sizeof(request) - 1);
    else if (SSL_write(client->ssl, request, sizeof(request) - 1) <= 0)
        return false;
    if (!flush_batch(client) || !flush_openssl(client))
        return false;
    while ((rc = SSL_read(client->ssl, answer, sizeof(answer))) <= 0) {
        if (SSL_get_error(client->ssl, rc) != SSL_ERROR_WANT_READ || !fill(client))
            return false;
    }
    return true;
}

static bool read_exactly(int fd, unsigned char *data, size_t len)
{
    return recv(fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

/* Asks with TLS 1.2, and waits for a record with data. */
static bool ask_blindly(struct client *client)
{
    unsigned char header[HEADER_LEN];
    unsigned char body[UINT16_MAX];

    add_record(client, TYPE_DATA, request, sizeof(request) - 1);
    if (!flush_batch(client))
        return false;
    while (read_exactly(client->fd, header, sizeof(header))) {
        if (!read_exactly(client->fd, body, (size_t)header[3] << 8 | header[4]))
            return false;
        if (header[0] == TYPE_DATA)
            return true;
        client->found->alerts += header[0] == TYPE_ALERT;
    }
    return false;
}

static bool ask_and_count(struct client *client)
{
    bool is_answered = client->is_1_3 ? ask(client) : ask_blindly(client);

    client->found->answers += is_answered;
    return is_answered;
}

/*
 * False: the server has ended it. It is read to its end then, so that what the server had sent before is
 * counted.
 */
static bool flood(struct client *client, const struct options *options)
{
    bool is_open = true;

    if (options->kind->how == NO_RECORDS)
        return true;
    for (unsigned long i = 1; i <= options->records && is_open; i++) {
        is_open = send_dataless(client, options->kind);
        client->found->sent += is_open;
        if (is_open && options->data_every && i % options->data_every == 0)
            is_open = ask_and_count(client);
    }
    return ask_and_count(client) && is_open;
}

static void run_once(SSL_CTX *context, const struct options *options, struct found *found)
{
    static struct client client; /* it is large */

    memset(&client, 0, sizeof(client));
    client.found = found;
    client.is_1_3 = options->kind->version == TLS1_3_VERSION;
    found->connections++;
    client.fd = connect_to(options->port);
    if (client.fd < 0) {
        found->failed++;
        return;
    }
    client.ssl = SSL_new(context);
    client.in = BIO_new(BIO_s_mem());
    client.out = BIO_new(BIO_s_mem());
    must(client.ssl && client.in && client.out, "no memory");
    SSL_set_bio(client.ssl, client.in, client.out);
    SSL_set_connect_state(client.ssl);
    SSL_set_app_data(client.ssl, &client);
    SSL_set_msg_callback(client.ssl, note_alert);
    SSL_set_msg_callback_arg(client.ssl, &client);
    if (!shake_hands(&client, options->kind)) {
        found->failed++;
    } else {
        if (!client.is_1_3 && !client.cipher)
            derive_keys_1_2(&client);
        if (!client.is_1_3)
            client.sequence = 1; /* the end of the handshake was 0 */
        else if (options->kind->how == RECORDS)
            derive_keys_1_3(&client);
        found->cut += !flood(&client, options);
    }
    EVP_CIPHER_CTX_free(client.cipher);
    SSL_free(client.ssl);
    (void)close(client.fd);
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static SSL_CTX *make_context(const struct options *options)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int version = options->kind->version;

    must(context && SSL_CTX_set_min_proto_version(context, version) == 1 &&
             SSL_CTX_set_max_proto_version(context, version) == 1 &&
             SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
             SSL_CTX_set_cipher_list(context, "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256") ==
                 1,
         "no context");
    SSL_CTX_set_keylog_callback(context, note_secret);
    return context;
}

static void run(const struct options *options)
{
    SSL_CTX *context = make_context(options);
    static struct found found; /* as the client is, that points at it */
    double end_s = now_s() + (double)options->seconds;

    do {
        if (options->kind->how != NO_CONNECTION)
            run_once(context, options, &found);
    } while (now_s() < end_s);
    SSL_CTX_free(context);
    printf("{\"connections\": %lu, \"failed\": %lu, \"sent\": %lu, \"answers\": %lu, \"cut\": %lu, "
           "\"alerts\": %lu}\n",
           found.connections, found.failed, found.sent, found.answers, found.cut, found.alerts);
    (void)fflush(stdout);
}

static const struct kind *find_kind(const char *name)
{
    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    }
    must(false, "no such kind");
    return NULL;
}

static void read_options(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"port", required_argument, NULL, 'p'},
        {"kind", required_argument, NULL, 'k'},
        {"records", required_argument, NULL, 'r'},
        {"data-every", required_argument, NULL, 'd'},
        {"seconds", required_argument, NULL, 's'},
        {"processes", required_argument, NULL, 'n'},
        {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'p':
            options->port = (int)strtol(optarg, NULL, 10);
            break;
        case 'k':
            options->kind = find_kind(optarg);
            break;
        case 'r':
            options->records = strtoul(optarg, NULL, 10);
            break;
        case 'd':
            options->data_every = strtoul(optarg, NULL, 10);
            break;
        case 's':
            options->seconds = strtoul(optarg, NULL, 10);
            break;
        case 'n':
            options->processes = strtoul(optarg, NULL, 10);
            break;
        default:
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    struct options options = {.records = 1000, .processes = 1};

    read_options(argc, argv, &options);
    must(options.kind, "which --kind?");
    (void)signal(SIGPIPE, SIG_IGN);
    for (unsigned long i = 1; i < options.processes; i++) {
        if (fork() == 0) {
            run(&options);
            return 0;
        }
    }
    run(&options);
    while (wait(NULL) > 0) {
    }
    return 0;
}
