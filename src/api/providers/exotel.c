/*
 * exotel.c - Exotel: its answers in JSON, its token check, and the statuses that end a call.
 */
#include "api/providers/basic_auth.h"
#include "api/providers/provider.h"

#include <strings.h>

#include "api/providers/verify.h"
#include "base/json.h"

#define STATUS_ANSWER "{\"success\":true}"

/* Its flow says what follows a stream, and no answer can change that. */
static void exotel_render_stream(struct strbuf *buf, struct slice url, struct slice after UNUSED)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_key(&json, "url");
    json_slice(&json, url);
    json_object_end(&json);
}

static void exotel_render_hangup(struct strbuf *buf)
{
    strbuf_append_str(buf, STATUS_ANSWER);
}

static void exotel_render_failure(struct strbuf *buf, const char *message UNUSED, const char *error,
                                  const char *code)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_put_bool(&json, "success", false);
    json_put_string(&json, "error", error);
    json_put_string(&json, "code", code);
    json_object_end(&json);
}

/* The query's token; data is NULL if there is none. With its length: it must not fit because of a NUL. */
static struct slice exotel_token(const struct form *query)
{
    for (size_t i = 0; i < query->count; i++) {
        if (strcmp(query->fields[i].name, "token") == 0)
            return (struct slice){query->fields[i].value, query->fields[i].value_len};
    }
    return (struct slice){NULL, 0};
}

/*
 * Exotel signs nothing. The token is in the URL that the operator configured (?token=...), or it is what
 * Exotel sends as Basic authentication: user:password, or the password of whatever user.
 */
static int exotel_check(struct http_request *request, const struct secrets *secrets, struct slice url UNUSED)
{
    struct slice authorization = http_request_header(request, "authorization");
    struct arena *arena = http_request_arena(request);
    struct slice pair, password, token;
    struct form query;
    bool fits = false;
    int err = form_parse(arena, http_request_query(request), &query);

    if (err < 0)
        return err == -ENOMEM ? err : -EBADMSG;
    token = exotel_token(&query);
    if (token.data)
        fits = secrets_match(secrets, SECRET_EXOTEL, token);
    else if (!authorization.data)
        return -ENOKEY;
    if (basic_auth_read(arena, authorization, &pair, &password))
        fits = fits || secrets_match(secrets, SECRET_EXOTEL, pair) ||
               secrets_match(secrets, SECRET_EXOTEL, password);
    return fits ? 0 : -EKEYREJECTED;
}

static bool exotel_ends_call(struct params *params, const char **ret_status)
{
    const char *event = params_text(params, "EventType");
    const char *status = params_text(params, "Status");

    *ret_status = status ? status : "";
    if (event && event[0])
        return strcasecmp(event, "terminal") == 0;
    return provider_status_is_final(*ret_status);
}

const struct provider provider_exotel = {
    .name = "exotel",
    .sid_field = "CallSid",
    .default_template = "template",
    .content_type = "application/json",
    .failure_status = 503,
    .malformed_status = 400,
    .takes_json = true,
    .body_has_settings = true,
    .secret = SECRET_EXOTEL,
    .status_answer = {STATUS_ANSWER, sizeof(STATUS_ANSWER) - 1},
    .render_stream = exotel_render_stream,
    .render_hangup = exotel_render_hangup,
    .render_failure = exotel_render_failure,
    .check = exotel_check,
    .ends_call = exotel_ends_call,
};
