/*
 * tls_flood.c - a TLS client that sends records without data, as many as it is told to.
 *
 * Driven by functional/test_tls_floods.py, and by bench/slow_clients.py.
 *
 *     tls-flood --port PORT --kind KIND [--records N] [--data-every N] [--seconds S] [--processes N]
 *
 * key-update   TLS 1.3: new keys, again and again, each time with the wish that the server changes its own,
 * too. renegotiate  TLS 1.2: hellos that ask for another handshake. empty        TLS 1.2: application data,
 * of no bytes. alert        TLS 1.2: warnings. handshake    no records at all: only the handshake. spin no
 * connection at all: the CPU that the others take, for comparison.
 *
 * Sends --records of them in a row, and asks for /health at the end. With --data-every it asks after each so
 * many of them as well, and waits for the answer. With --seconds it connects again when it is done or was
 * cut, until the time is over, in each of --processes. Prints one line of JSON for each process: what was
 * sent, and what came back.
 *
 * OpenSSL has no call that sends such records with TLS 1.2, so they are encrypted here: AES-128-GCM with the
 * keys of the session, from the first record behind the handshake on. What the server sends is not decrypted
 * then; its records are counted by their types.
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
    SALT_LEN = 4,
    NONCE_LEN = 12,
    TAG_LEN = 16,
    HEADER_LEN = 5,
    SHOWN_NONCE_LEN = 8,
    PATIENCE_MS = 60 * 1000,
    BATCH = 16 * 1024,
    TYPE_ALERT = 21,
    TYPE_HANDSHAKE = 22,
    TYPE_DATA = 23,
};

enum kind { KEY_UPDATE, RENEGOTIATE, EMPTY, ALERT, HANDSHAKE, SPIN };

static const char *const kinds[] = {"key-update", "renegotiate", "empty", "alert", "handshake", "spin"};
static const char request[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct options {
    enum kind kind;
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
    unsigned long alerts; /* that the server sent, with TLS 1.2 */
};

struct client {
    SSL *ssl;
    BIO *in;
    BIO *out; /* what OpenSSL wants to send: gathered, and sent in one go */
    int fd;
    EVP_CIPHER_CTX *cipher; /* TLS 1.2 */
    unsigned char salt[SALT_LEN];
    uint64_t sequence;
    char batch[BATCH + 256];
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

static bool shake_hands(struct client *client)
{
    for (;;) {
        int rc = SSL_do_handshake(client->ssl);
        int error = SSL_get_error(client->ssl, rc);

        if (!flush_openssl(client))
            return false;
        if (rc == 1)
            return true;
        if (error != SSL_ERROR_WANT_READ || !fill(client))
            return false;
    }
}

/* The client's key and salt, of TLS 1.2 (RFC 5246, section 6.3; RFC 5288). */
static void derive_keys(struct client *client)
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
    client->cipher = EVP_CIPHER_CTX_new();
    must(client->cipher && EVP_EncryptInit_ex(client->cipher, EVP_aes_128_gcm(), NULL, block, NULL) == 1,
         "no cipher");
    client->sequence = 1; /* the end of the handshake was 0 */
}

static void put_number(unsigned char *to, uint64_t number)
{
    for (unsigned i = 0; i < SHOWN_NONCE_LEN; i++)
        to[i] = (unsigned char)(number >> (56 - 8 * i));
}

/* Adds a record of TLS 1.2 to the batch. */
static void add_record(struct client *client, unsigned type, const void *data, size_t len)
{
    unsigned char nonce[NONCE_LEN];
    unsigned char known[SHOWN_NONCE_LEN + HEADER_LEN] = {0};
    unsigned char *at = (unsigned char *)client->batch + client->batch_len;
    size_t body_len = SHOWN_NONCE_LEN + len + TAG_LEN;
    int count = 0;

    must(client->batch_len + HEADER_LEN + body_len <= sizeof(client->batch), "the batch is full");
    put_number(known, client->sequence);
    memcpy(known + SHOWN_NONCE_LEN,
           (const unsigned char[]){(unsigned char)type, 3, 3, (unsigned char)(len >> 8), (unsigned char)len},
           HEADER_LEN);
    memcpy(nonce, client->salt, SALT_LEN);
    put_number(nonce + SALT_LEN, client->sequence++);
    memcpy(at,
           (const unsigned char[]){(unsigned char)type, 3, 3, (unsigned char)(body_len >> 8),
                                   (unsigned char)body_len},
           HEADER_LEN);
    memcpy(at + HEADER_LEN, nonce + SALT_LEN, SHOWN_NONCE_LEN);
    must(EVP_EncryptInit_ex(client->cipher, NULL, NULL, NULL, nonce) == 1 &&
             EVP_EncryptUpdate(client->cipher, NULL, &count, known, sizeof(known)) == 1 &&
             EVP_EncryptUpdate(client->cipher, at + HEADER_LEN + SHOWN_NONCE_LEN, &count, data, (int)len) ==
                 1 &&
             EVP_EncryptFinal_ex(client->cipher, at + HEADER_LEN + SHOWN_NONCE_LEN + len, &count) == 1 &&
             EVP_CIPHER_CTX_ctrl(client->cipher, EVP_CTRL_GCM_GET_TAG, TAG_LEN,
                                 at + HEADER_LEN + SHOWN_NONCE_LEN + len) == 1,
         "a record cannot be encrypted");
    client->batch_len += HEADER_LEN + body_len;
}

/* Of a hello the server looks at the first four bytes before it refuses. */
static bool send_dataless(struct client *client, enum kind kind)
{
    static const unsigned char hello[] = {1, 0, 0, 0};
    static const unsigned char warning[] = {1, 90};

    switch (kind) {
    case KEY_UPDATE:
        must(SSL_key_update(client->ssl, SSL_KEY_UPDATE_REQUESTED) == 1, "no key update");
        must(SSL_do_handshake(client->ssl) == 1, "a key update cannot be made");
        return BIO_pending(client->out) < BATCH || flush_openssl(client);
    case RENEGOTIATE:
        add_record(client, TYPE_HANDSHAKE, hello, sizeof(hello));
        break;
    case EMPTY:
        add_record(client, TYPE_DATA, "", 0);
        break;
    case ALERT:
        add_record(client, TYPE_ALERT, warning, sizeof(warning));
        break;
    default:
        break;
    }
    return client->batch_len < BATCH || flush_batch(client);
}

/* Asks with TLS 1.3, and reads the answer. */
static bool ask(struct client *client)
{
    char answer[4096];
    int rc;

    if (SSL_write(client->ssl, request, sizeof(request) - 1) <= 0 || !flush_openssl(client))
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
static bool ask_blindly(struct client *client, struct found *found)
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
        found->alerts += header[0] == TYPE_ALERT;
    }
    return false;
}

static bool ask_and_count(struct client *client, struct found *found)
{
    bool is_answered = client->cipher ? ask_blindly(client, found) : ask(client);

    found->answers += is_answered;
    return is_answered;
}

/* False: the server has ended it. */
static bool flood(struct client *client, const struct options *options, struct found *found)
{
    for (unsigned long i = 1; i <= options->records && options->kind != HANDSHAKE; i++) {
        if (!send_dataless(client, options->kind))
            return false;
        found->sent++;
        if (options->data_every && i % options->data_every == 0 && !ask_and_count(client, found))
            return false;
    }
    return options->kind == HANDSHAKE || ask_and_count(client, found);
}

static void run_once(SSL_CTX *context, const struct options *options, struct found *found)
{
    static struct client client; /* it is large */

    memset(&client, 0, sizeof(client));
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
    if (!shake_hands(&client)) {
        found->failed++;
    } else {
        if (SSL_version(client.ssl) == TLS1_2_VERSION)
            derive_keys(&client);
        found->cut += !flood(&client, options, found);
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
    bool is_1_3 = options->kind == KEY_UPDATE || options->kind == HANDSHAKE;
    int version = is_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;

    must(context && SSL_CTX_set_min_proto_version(context, version) == 1 &&
             SSL_CTX_set_max_proto_version(context, version) == 1 &&
             SSL_CTX_set_cipher_list(context, "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256") ==
                 1,
         "no context");
    return context;
}

static void run(const struct options *options)
{
    SSL_CTX *context = make_context(options);
    struct found found = {0};
    double end_s = now_s() + (double)options->seconds;

    do {
        if (options->kind != SPIN)
            run_once(context, options, &found);
    } while (now_s() < end_s);
    SSL_CTX_free(context);
    printf("{\"connections\": %lu, \"failed\": %lu, \"sent\": %lu, \"answers\": %lu, \"cut\": %lu, "
           "\"alerts\": %lu}\n",
           found.connections, found.failed, found.sent, found.answers, found.cut, found.alerts);
    (void)fflush(stdout);
}

static enum kind find_kind(const char *name)
{
    for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i], name) == 0)
            return (enum kind)i;
    }
    must(false, "no such kind");
    return SPIN;
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
