/*
 * token.c - keeps the bearer token, and reads its file again when it is old.
 */
#include "k8s/token.h"

#include <stdlib.h>

#include "base/log.h"

void token_init(struct token *token, const struct k8s_config *config)
{
    *token = (struct token){.config = config, .is_stale = true};
}

static void token_set(struct token *token, char *text)
{
    if (token->text)
        explicit_bzero(token->text, strlen(token->text));
    free(token->text);
    token->text = text;
}

void token_release(struct token *token)
{
    token_set(token, NULL);
}

void token_drop(struct token *token)
{
    token->is_stale = true;
}

static void token_refresh(struct token *token, uint64_t now_ms)
{
    char *text = NULL;
    int err = k8s_token_read(token->config->token_file, &text);

    if (err < 0) {
        if (!token->is_failing)
            log_warn("cannot read the Kubernetes token; the last one stays",
                     log_str("file", token->config->token_file), log_str("error", strerror(-err)));
        token->is_failing = true;
        return;
    }
    token_set(token, text);
    token->read_at_ms = now_ms;
    token->is_stale = false;
    token->is_failing = false;
}

const char *token_get(struct token *token, uint64_t now_ms)
{
    if (token->config->token_file &&
        (token->is_stale || now_ms - token->read_at_ms >= token->config->token_fresh_ms))
        token_refresh(token, now_ms);
    return token->text ? token->text : token->config->token;
}
