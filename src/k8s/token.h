/*
 * token.h - the bearer token that we show to the API server, read again as it rotates. Loop thread only.
 *
 * Reading a small file from the service account's volume is quick enough for the loop, and happens once a
 * minute.
 */
#ifndef K8S_TOKEN_H
#define K8S_TOKEN_H

#include "k8s/config.h"

struct token {
    const struct k8s_config *config;
    char *text; /* NULL: the configuration's */
    uint64_t read_at_ms;
    bool is_stale; /* must be read again before it is used */
    bool is_failing;
};

/* `config` is borrowed. */
void token_init(struct token *token, const struct k8s_config *config);
void token_release(struct token *token);

/*
 * What to show now; NULL: we have none. Borrowed until the next call. If the file cannot be read, the token
 * that was read last goes on being shown, and that is logged once.
 */
const char *token_get(struct token *token, uint64_t now_ms);

/* The server did not accept it: read it again for the next request, however young it is. */
void token_drop(struct token *token);

#endif
