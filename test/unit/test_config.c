/* test_config.c - reading, checking and showing the settings. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"

/* An environment: name, value, name, value, ..., NULL. */
static const char *lookup(void *arg, const char *name)
{
    for (const char *const *at = arg; at[0]; at += 2) {
        if (strcmp(at[0], name) == 0)
            return at[1];
    }
    return NULL;
}

#define LOAD(...) load((const char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static struct config *load(const char **environment)
{
    struct config *config = NULL;

    assert_int_equal(config_load(lookup, environment, &config), 0);
    return config;
}

static void assert_errors(const char **environment, const char *expected)
{
    struct config *config = load(environment);

    assert_string_equal(config_errors(config).data, expected);
    config_free(config);
}

#define ASSERT_ERRORS(expected, ...) assert_errors((const char *[]){__VA_ARGS__, NULL}, expected)

/* One variable is refused, and the message names it, its value and what is allowed. */
static void assert_refused(const char *name, const char *value, const char *allowed)
{
    struct config *config = load((const char *[]){name, value, NULL});
    const char *errors = config_errors(config).data;

    if (!strstr(errors, name) || !strstr(errors, value) || !strstr(errors, allowed))
        fail_msg("%s=%s gave: %s", name, value, errors);
    config_free(config);
}

static void defaults__are_those_of_the_documentation(void **state UNUSED)
{
    struct config *config = LOAD();
    const struct settings *settings = config_settings(config);

    assert_string_equal(config_errors(config).data, "");
    assert_string_equal(config_inert_names(config), "");
    assert_int_equal(settings->http_port, 8080);
    assert_int_equal(settings->metrics_port, 9090);
    assert_int_equal(settings->http_read_timeout_ms, 5000);
    assert_int_equal(settings->http_write_timeout_ms, 10000);
    assert_int_equal(settings->http_idle_timeout_ms, 60000);
    assert_int_equal(settings->http_shutdown_timeout_ms, 30000);
    assert_int_equal(settings->shutdown_delay_ms, 5000);
    assert_false(config_is_set(config, "GATEWAY_DRAIN_TIMEOUT"));
    assert_int_equal(settings->lease_ttl_ms, 15 * 60 * 1000);
    assert_int_equal(settings->call_info_ttl_ms, 60 * 60 * 1000);
    assert_int_equal(settings->call_max_duration_ms, 4 * 60 * 60 * 1000);
    assert_int_equal(settings->draining_ttl_ms, 6 * 60 * 1000);
    assert_int_equal(settings->cleanup_interval_ms, 30000);
    assert_int_equal(settings->reconcile_interval_ms, 60000);
    assert_int_equal(settings->heartbeat_ttl_ms, 90000);
    assert_int_equal(settings->connect_timeout_ms, 0);
    assert_int_equal(settings->log_level, LOG_INFO);
    assert_int_equal(settings->log_format, LOG_JSON);
    assert_int_equal(settings->log_fsync, CONFIG_FSYNC_EVERYSEC);
    assert_int_equal(settings->pod_source, CONFIG_PODS_API);
    assert_int_equal(settings->static_pod_count, 0);
    assert_true(settings->leader_election_enabled);
    assert_string_equal(settings->data_dir, "./data");
    assert_string_equal(settings->tier_config, "");
    assert_string_equal(settings->voice_agent_base_url, "ws://localhost:8080");
    assert_string_equal(settings->leader_election_namespace, "default");
    config_free(config);
}

static void values__of_every_type_are_read(void **state UNUSED)
{
    struct config *config =
        LOAD("HTTP_PORT", "0", "METRICS_PORT", "0", "MAX_CONNECTIONS", "7", "LEASE_TTL", "1h30m",
             "CLEANUP_INTERVAL", "500ms", "LEADER_ELECTION_ENABLED", "0", "LOG_FSYNC", "always", "LOG_LEVEL",
             "debug", "LOG_FORMAT", "console", "TIER_CONFIG", "{\"gold\":1}", "VOICE_AGENT_BASE_URL",
             "wss://[::1]:9/x/", "BUSY_MESSAGE", "Besetzt \xc3\xbc", "REDIS_POOL_SIZE", "3");
    const struct settings *settings = config_settings(config);

    assert_string_equal(config_errors(config).data, "");
    assert_int_equal(settings->http_port, 0);
    assert_int_equal(settings->max_connections, 7);
    assert_int_equal(settings->lease_ttl_ms, 90 * 60 * 1000);
    assert_int_equal(settings->cleanup_interval_ms, 500);
    assert_false(settings->leader_election_enabled);
    assert_int_equal(settings->log_fsync, CONFIG_FSYNC_ALWAYS);
    assert_int_equal(settings->log_level, LOG_DEBUG);
    assert_int_equal(settings->log_format, LOG_CONSOLE);
    assert_string_equal(settings->tier_config, "{\"gold\":1}");
    assert_string_equal(settings->voice_agent_base_url, "wss://[::1]:9/x");
    assert_string_equal(settings->busy_message, "Besetzt \xc3\xbc");
    assert_true(config_is_set(config, "HTTP_PORT"));
    assert_false(config_is_set(config, "DATA_DIR"));
    assert_string_equal(config_inert_names(config), "REDIS_POOL_SIZE");
    config_free(config);
}

static void base_url__comes_from_the_public_one(void **state UNUSED)
{
    static const char *const pairs[][2] = {
        {"https://voice.example.com", "wss://voice.example.com"},
        {"https://example.com:444/voice/", "wss://example.com:444/voice"},
        {"http://[::1]:8080", "ws://[::1]:8080"},
        {"HTTPS://voice.example.com", "wss://voice.example.com"},
    };
    struct strbuf shown;

    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct config *config = LOAD("PUBLIC_BASE_URL", pairs[i][0]);

        assert_string_equal(config_errors(config).data, "");
        assert_string_equal(config_settings(config)->voice_agent_base_url, pairs[i][1]);
        strbuf_init(&shown, NULL, 64 * 1024);
        config_show(config, &shown);
        assert_non_null(strstr(shown.data, "# default, from PUBLIC_BASE_URL\n"));
        strbuf_release(&shown);
        config_free(config);
    }
}

static void base_url__that_is_set_stays(void **state UNUSED)
{
    struct config *config = LOAD("PUBLIC_BASE_URL", "https://voice.example.com", "VOICE_AGENT_BASE_URL",
                                 "wss://streams.example.com");

    assert_string_equal(config_settings(config)->voice_agent_base_url, "wss://streams.example.com");
    config_free(config);
}

static void empty_value__counts_as_unset(void **state UNUSED)
{
    struct config *config = LOAD("HTTP_PORT", "", "API_KEY", "", "API_KEY_FILE", "", "DATA_DIR", "");

    assert_string_equal(config_errors(config).data, "");
    assert_int_equal(config_settings(config)->http_port, 8080);
    assert_string_equal(config_settings(config)->data_dir, "./data");
    config_free(config);
}

static void bad_value__is_named_with_what_is_allowed(void **state UNUSED)
{
    static const char *const bad_ports[] = {"65536", "-1", "80a", " 80", "0x50", "99999999999999999999999"};
    static const char *const bad_durations[] = {
        "30", "s", "5 s", "-5s", "1.5h", "5d", "5sm", "1h30", "9ms", "99999999999999999999h", "25h", "0"};
    static const char *const bad_urls[] = {"localhost",    "http://x",        "ws://",       "ws://:80",
                                           "ws://a b",     "ws://a:0",        "ws://a:b",    "ws://[::1",
                                           "ws://a:99999", "ws://a/\xc3\xbc", "ws://a/<b",   "wsx://a",
                                           "ws://[]:80",   "ws://u@h",        "ws://[::1]80"};

    for (size_t i = 0; i < ARRAY_LEN(bad_ports); i++)
        assert_refused("HTTP_PORT", bad_ports[i], "a port from 0 to 65535");
    for (size_t i = 0; i < ARRAY_LEN(bad_durations); i++)
        assert_refused("CLEANUP_INTERVAL", bad_durations[i], "a duration from 10ms to 24h, such as 500ms");
    for (size_t i = 0; i < ARRAY_LEN(bad_urls); i++)
        assert_refused("VOICE_AGENT_BASE_URL", bad_urls[i], "a URL that begins with ws:// or wss://");
    assert_refused("MAX_CONNECTIONS", "0", "a whole number from 1 to 1000000");
    assert_refused("LOG_LEVEL", "loud", "debug, info, warn or error");
    assert_refused("LEADER_ELECTION_ENABLED", "yes", "true or false");
    assert_refused("TIER_CONFIG", "[1]", "a JSON object");
    assert_refused("TIER_CONFIG", "gold", "a JSON object");
}

static void bad_values__are_all_reported_at_once(void **state UNUSED)
{
    ASSERT_ERRORS("HTTP_PORT is \"x\" but must be a port from 0 to 65535\n"
                  "LOG_FORMAT is \"xml\" but must be json or console\n",
                  "LOG_FORMAT", "xml", "HTTP_PORT", "x");
}

static void bad_value__is_shown_without_its_control_characters(void **state UNUSED)
{
    ASSERT_ERRORS("DATA_DIR is \"a\\nb\" but must be text of at most 4000 characters, without line ends or "
                  "other control characters\n",
                  "DATA_DIR", "a\nb");
}

static void pods_from_kubernetes__need_to_know_where_that_is(void **state UNUSED)
{
    ASSERT_ERRORS("POD_SOURCE is kubernetes, but nothing says where that is: set KUBECONFIG, or run in a pod "
                  "with a service account\n",
                  "POD_SOURCE", "kubernetes");
}

/* A file with these bytes, until the next one is made. */
static const char *secret_file(const void *data, size_t len)
{
    static char path[] = "/tmp/test-config-XXXXXX";
    int fd = strcmp(path + sizeof(path) - 7, "XXXXXX") == 0 ? mkstemp(path)
                                                            : open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), (ssize_t)len);
    close(fd);
    return path;
}

static int remove_secret_file(void **state UNUSED)
{
    return unlink(secret_file("", 0));
}

static void assert_secret(const void *data, size_t len, const char *expected)
{
    struct config *config = LOAD("REDIS_URL_FILE", secret_file(data, len));

    assert_string_equal(config_errors(config).data, "");
    assert_string_equal(config_settings(config)->redis_url, expected);
    assert_true(config_is_set(config, "REDIS_URL"));
    config_free(config);
}

static void assert_bad_secret_file(const char *path, const char *why)
{
    struct config *config = LOAD("REDIS_URL_FILE", path);
    char expected[256];

    snprintf(expected, sizeof(expected), "REDIS_URL_FILE is \"%s\", but that file %s\n", path, why);
    assert_string_equal(config_errors(config).data, expected);
    assert_string_equal(config_settings(config)->redis_url, "");
    assert_false(config_is_set(config, "REDIS_URL"));
    config_free(config);
}

static void secret__is_read_from_a_file_without_the_newline_at_its_end(void **state UNUSED)
{
    assert_secret("redis://a", 9, "redis://a");
    assert_secret("redis://a\n", 10, "redis://a");
    assert_secret("redis://a\r\n\n", 12, "redis://a");
    assert_secret(" redis://a ", 11, " redis://a ");
}

static void secret__file_that_cannot_be_used_is_named_with_the_reason(void **state UNUSED)
{
    enum { TOO_LONG = 64 * 1024 + 1 };
    char *text = malloc(TOO_LONG);

    assert_non_null(text);
    memset(text, 'x', TOO_LONG);
    assert_bad_secret_file("/nowhere/secret", "cannot be opened: No such file or directory");
    assert_bad_secret_file("/", "is not a regular file");
    assert_bad_secret_file("/dev/zero", "is not a regular file");
    assert_bad_secret_file(secret_file("", 0), "is empty");
    assert_bad_secret_file(secret_file("\n", 1), "is empty");
    assert_bad_secret_file(secret_file("a\0b", 3), "is not a text");
    assert_bad_secret_file(secret_file(text, TOO_LONG), "has more than 65536 bytes");
    free(text);
}

static void secret__in_a_file_is_checked_like_any_other_and_not_shown(void **state UNUSED)
{
    const char *path = secret_file("two\nlines", 9);
    char expected[512];

    snprintf(
        expected, sizeof(expected),
        "REDIS_URL (in the file \"%s\") is a secret, not shown, but must be text of at most 4096 characters, "
        "without line ends or other control characters\n",
        path);
    ASSERT_ERRORS(expected, "REDIS_URL_FILE", path);
    ASSERT_ERRORS("REDIS_URL and REDIS_URL_FILE are both set: unset one of them\n", "REDIS_URL", "redis://a",
                  "REDIS_URL_FILE", secret_file("redis://a", 9));
    ASSERT_ERRORS("REDIS_SENTINEL_USERNAME is set, but REDIS_SENTINEL_PASSWORD is not\n",
                  "REDIS_SENTINEL_USERNAME", "router");
    ASSERT_ERRORS("", "REDIS_SENTINEL_USERNAME", "router", "REDIS_SENTINEL_PASSWORD_FILE",
                  secret_file("s3cret\n", 7));
}

static struct config *reread(const struct config *config, const char *name, size_t expected_files)
{
    struct config *fresh = NULL;
    size_t files = 99;

    assert_int_equal(config_reread(config, &name, 1, &fresh, &files), 0);
    assert_int_equal(files, expected_files);
    return fresh;
}

static void reread__takes_what_is_in_the_file_now_and_nothing_else(void **state UNUSED)
{
    struct config *config =
        LOAD("API_KEY_FILE", secret_file("old\n", 4), "EXOTEL_TOKEN", "", "HTTP_PORT", "81");
    struct config *fresh;

    secret_file("newer\n", 6);
    fresh = reread(config, "API_KEY", 1);
    assert_string_equal(config_errors(fresh).data, "");
    assert_string_equal(config_settings(fresh)->api_key, "newer");
    assert_string_equal(config_settings(config)->api_key, "old");
    assert_int_equal(config_settings(fresh)->http_port, 81);
    assert_true(config_is_set(fresh, "API_KEY"));
    config_free(fresh);
    fresh = reread(config, "GATEWAY_SECRET", 0);
    assert_string_equal(config_settings(fresh)->api_key, "old");
    config_free(fresh);
    config_free(config);
}

static void reread__names_variable_and_file_of_what_is_wrong(void **state UNUSED)
{
    const char *path = secret_file("old\n", 4);
    struct config *config = LOAD("API_KEY_FILE", path);
    char expected[256];
    struct config *fresh;

    secret_file("", 0);
    fresh = reread(config, "API_KEY", 1);
    snprintf(expected, sizeof(expected), "API_KEY_FILE is \"%s\", but that file is empty\n", path);
    assert_string_equal(config_errors(fresh).data, expected);
    config_free(fresh);

    secret_file("new\nkey", 7);
    fresh = reread(config, "API_KEY", 1);
    assert_non_null(strstr(config_errors(fresh).data, path));
    assert_null(strstr(config_errors(fresh).data, "new"));
    assert_string_equal(config_settings(fresh)->api_key, "old");
    config_free(fresh);

    secret_file("new", 3);
    fresh = reread(config, "API_KEY", 1);
    config_add_error(fresh, "API_KEY", "is too good");
    snprintf(expected, sizeof(expected), "API_KEY (in the file \"%s\"): is too good\n", path);
    assert_string_equal(config_errors(fresh).data, expected);
    config_free(fresh);
    config_free(config);
}

static void secret__is_masked_wherever_it_comes_from(void **state UNUSED)
{
    struct config *config =
        LOAD("REDIS_URL", "redis://:s3cret@a", "REDIS_SENTINEL_PASSWORD_FILE", secret_file("s3cret\n", 7));
    struct strbuf text;

    strbuf_init(&text, NULL, 1024 * 1024);
    config_show(config, &text);
    assert_string_equal(config_settings(config)->redis_sentinel_password, "s3cret");
    assert_non_null(strstr(text.data, "\nREDIS_URL=********  # environment\n"));
    assert_non_null(strstr(text.data, "\nREDIS_SENTINEL_PASSWORD=********  # file\n"));
    assert_null(strstr(text.data, "s3cret"));
    strbuf_reset(&text);
    config_show_markdown(&text);
    assert_non_null(strstr(text.data, "`REDIS_URL_FILE`"));
    assert_non_null(strstr(text.data, "`REDIS_SENTINEL_PASSWORD_FILE`"));
    strbuf_release(&text);
    config_free(config);
}

static void ports__must_differ_unless_they_are_free_ones(void **state UNUSED)
{
    ASSERT_ERRORS("METRICS_PORT is 9090, but HTTP_PORT is the same: they must differ\n", "HTTP_PORT", "9090");
    ASSERT_ERRORS("", "HTTP_PORT", "0", "METRICS_PORT", "0");
}

static void voice_agent_container__is_a_dns_label_or_unset(void **state UNUSED)
{
    static const char *const bad[] = {"-agent", "agent-", "Agent", "my_agent", "a.b", "a b", "\303\244"};

    ASSERT_ERRORS("", "VOICE_AGENT_CONTAINER", "agent-2");
    ASSERT_ERRORS("", "VOICE_AGENT_CONTAINER", "");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_refused("VOICE_AGENT_CONTAINER", bad[i], "lower-case letters, digits and inner hyphens");
    assert_refused("VOICE_AGENT_CONTAINER",
                   "a123456789b123456789c123456789d123456789e123456789f123456789g123",
                   "at most 63 characters");
}

static void leader_election__times_must_fit_each_other(void **state UNUSED)
{
    ASSERT_ERRORS("LEADER_ELECTION_DURATION must be longer than LEADER_ELECTION_RENEW_DEADLINE\n",
                  "LEADER_ELECTION_DURATION", "10s");
    ASSERT_ERRORS("LEADER_ELECTION_RENEW_DEADLINE must be longer than 1.2 times "
                  "LEADER_ELECTION_RETRY_PERIOD\n",
                  "LEADER_ELECTION_RENEW_DEADLINE", "2400ms");
    ASSERT_ERRORS("", "LEADER_ELECTION_RENEW_DEADLINE", "2401ms");
}

static void call_record__is_never_shorter_than_the_lease(void **state UNUSED)
{
    struct config *config = LOAD("LEASE_TTL", "24h", "CALL_INFO_TTL", "2h");

    assert_int_equal(config_settings(config)->call_info_ttl_ms, 24 * 3600 * 1000);
    assert_int_equal(config_settings(config)->call_max_duration_ms, 24 * 3600 * 1000);
    config_free(config);
    config = LOAD("LEASE_TTL", "24h", "CALL_MAX_DURATION", "2h");
    assert_int_equal(config_settings(config)->call_max_duration_ms, 2 * 3600 * 1000);
    config_free(config);
}

static void static_pods__are_split_and_choose_their_source(void **state UNUSED)
{
    struct config *config = LOAD("STATIC_PODS", "a=127.0.0.1:9000, b ,c=[::1]:1,");
    const struct settings *settings = config_settings(config);

    assert_string_equal(config_errors(config).data, "");
    assert_int_equal(settings->pod_source, CONFIG_PODS_STATIC);
    assert_int_equal(settings->static_pod_count, 3);
    assert_string_equal(settings->static_pods[0].name, "a");
    assert_string_equal(settings->static_pods[0].address, "127.0.0.1:9000");
    assert_string_equal(settings->static_pods[1].name, "b");
    assert_string_equal(settings->static_pods[1].address, "");
    assert_string_equal(settings->static_pods[2].address, "[::1]:1");
    config_free(config);
}

static void static_pods__that_contradict_are_refused(void **state UNUSED)
{
    ASSERT_ERRORS("STATIC_PODS names the pod \"a\" twice\n", "STATIC_PODS", "a=1,b,a=2");
    ASSERT_ERRORS("POD_SOURCE is static, but STATIC_PODS names no pod\n", "POD_SOURCE", "static");
    ASSERT_ERRORS("POD_SOURCE is api, but STATIC_PODS is set: set POD_SOURCE=static, or unset one of them\n",
                  "POD_SOURCE", "api", "STATIC_PODS", "a");
}

static void errors_of_others__are_added(void **state UNUSED)
{
    struct config *config = LOAD("TIER_CONFIG", "{\"gold\":-1}");

    config_add_error(config, "TIER_CONFIG", "a target is negative");
    assert_string_equal(config_errors(config).data, "TIER_CONFIG: a target is negative\n");
    config_free(config);
}

static void pod_source__is_kubernetes_where_something_says_where_that_is(void **state UNUSED)
{
    static const struct {
        const char *name;
        const char *value;
        enum config_pod_source source;
    } cases[] = {
        {"KUBECONFIG", "/etc/kubeconfig", CONFIG_PODS_KUBERNETES},
        {"KUBE_API_URL", "http://127.0.0.1:8001", CONFIG_PODS_KUBERNETES},
        {"KUBERNETES_SERVICE_HOST", "10.0.0.1", CONFIG_PODS_API}, /* without a service account */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config *config =
            LOAD(cases[i].name, cases[i].value, "SERVICE_ACCOUNT_DIR", "/nonexistent/serviceaccount");

        assert_string_equal(config_errors(config).data, "");
        assert_int_equal(config_settings(config)->pod_source, cases[i].source);
        config_free(config);
        config = LOAD(cases[i].name, cases[i].value, "STATIC_PODS", "a");
        assert_int_equal(config_settings(config)->pod_source, CONFIG_PODS_STATIC);
        config_free(config);
    }
    ASSERT_ERRORS("POD_SOURCE is kubernetes, but STATIC_PODS is set: set POD_SOURCE=static, or unset one of "
                  "them\n",
                  "POD_SOURCE", "kubernetes", "STATIC_PODS", "a", "KUBECONFIG", "/etc/kubeconfig");
}

/* In characters. */
static size_t widest_line(const char *text)
{
    size_t widest = 0, columns = 0;

    for (; *text; text++) {
        columns = *text == '\n' ? 0 : columns + (((unsigned char)*text & 0xc0) != 0x80);
        widest = columns > widest ? columns : widest;
    }
    return widest;
}

static void show__says_the_value_and_where_it_comes_from(void **state UNUSED)
{
    struct config *config = LOAD("HTTP_PORT", "8081", "NAMESPACE", "voice", "STATIC_PODS", "a", "LEASE_TTL",
                                 "2h", "REDIS_POOL_SIZE", "7");
    struct strbuf text;

    strbuf_init(&text, NULL, 1024 * 1024);
    config_show(config, &text);
    assert_false(strbuf_failed(&text));
    assert_non_null(strstr(text.data, "\nHTTP_PORT=8081  # environment\n"));
    assert_non_null(strstr(text.data, "\nMETRICS_PORT=9090  # default\n"));
    assert_non_null(strstr(text.data, "\nPOD_SOURCE=static  # default\n"));
    assert_non_null(strstr(text.data, "\nREDIS_POOL_SIZE=7  # environment, no effect in this version\n"));
    assert_non_null(strstr(text.data, "\nLEADER_ELECTION_NAMESPACE=voice  # default\n"));
    assert_non_null(strstr(text.data, "\nCALL_INFO_TTL=2h  # default, raised to LEASE_TTL\n"));
    strbuf_reset(&text);
    config_show_markdown(&text);
    assert_false(strbuf_failed(&text));
    assert_non_null(strstr(text.data, "\n- **`HTTP_PORT`** (a port from 0 to 65535; default `8080`): "));
    assert_true(widest_line(text.data) > 90);
    assert_true(widest_line(text.data) <= 100);
    strbuf_release(&text);
    config_free(config);
}

struct found {
    size_t count;
    char text[256];
};

static void found(void *arg, const char *name, const char *nearest)
{
    struct found *list = arg;
    size_t len = strlen(list->text);

    list->count++;
    snprintf(list->text + len, sizeof(list->text) - len, "%s>%s ", name, nearest ? nearest : "-");
}

static void assert_unknown(const char *variable, const char *expected)
{
    char copy[128];
    char *environment[] = {copy, NULL};
    struct found list = {0};

    snprintf(copy, sizeof(copy), "%s", variable);
    config_find_unknown(environment, found, &list);
    if (strcmp(list.text, expected) != 0)
        fail_msg("%s: \"%s\" instead of \"%s\"", variable, list.text, expected);
}

static void unknown__variables_that_look_like_settings_are_named(void **state UNUSED)
{
    assert_unknown("HTTP_PROT=1", "HTTP_PROT>HTTP_PORT ");
    assert_unknown("http_port=1", "http_port>HTTP_PORT ");
    assert_unknown("REDIS_URI=1", "REDIS_URI>REDIS_URL ");
    assert_unknown("API_KEYS_FLIE=1", "API_KEYS_FLIE>API_KEYS_FILE ");
    assert_unknown("CALL_MAX_DURATOIN=1", "CALL_MAX_DURATOIN>CALL_MAX_DURATION ");
    assert_unknown("VOICE_AGENT_BASEURLS=1", "VOICE_AGENT_BASEURLS>VOICE_AGENT_BASE_URL ");
    assert_unknown("LEADER_ELECTION_PERIOD=1", "LEADER_ELECTION_PERIOD>LEADER_ELECTION_DURATION ");
    assert_unknown("GATEWAY_TIMEOUT=1", "GATEWAY_TIMEOUT>GATEWAY_IDLE_TIMEOUT ");
    assert_unknown("HOLD_MUSIC=1", "HOLD_MUSIC>HOLD_AUDIO ");
    assert_unknown("REDIS_HOST=1", "REDIS_HOST>REDIS_URL ");
}

/* A warning at every start about a variable of somebody else would teach people not to read warnings. */
static void unknown__variables_of_others_are_not_named(void **state UNUSED)
{
    static const char *const others[] = {
        "HTTP_PORT=8080",
        "API_KEY_FILE=x",
        "HTTP_PROXY=x",
        "HTTPS_PROXY=x",
        "http_proxy=x",
        "NO_PROXY=x",
        "HTTP_HOST=x",
        "NODE_NAME=x",
        "POD_IP=x",
        "APP_KEY=x",
        "LOGNAME=x",
        "HOSTNAME=x",
        "HOME=x",
        "PATH=x",
        "LANG=x",
        "TERM=x",
        "PWD=x",
        "SHLVL=1",
        "_=x",
        "LOG_FILE=x",
        "LOG_DIR=x",
        "TLS_CERT=x",
        "KUBERNETES_PORT=tcp://10.0.0.1:443",
        "KUBERNETES_SERVICE_PORT_HTTPS=443",
        "KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1",
        "REDIS_SERVICE_HOST=10.0.0.2",
        "REDIS_SERVICE_PORT=6379",
        "REDIS_PORT=tcp://10.0.0.2:6379",
        "REDIS_PORT_6379_TCP=tcp://10.0.0.2:6379",
        "GATEWAY_PORT_80_TCP_PORT=80",
        "GATEWAY_SERVICE_PORT_HTTP=80",
        "TWILIO_ACCOUNT_SID=x",
        "=x",
        "noequals",
    };

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_unknown(others[i], "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults__are_those_of_the_documentation),
        cmocka_unit_test(values__of_every_type_are_read),
        cmocka_unit_test(base_url__comes_from_the_public_one),
        cmocka_unit_test(base_url__that_is_set_stays),
        cmocka_unit_test(empty_value__counts_as_unset),
        cmocka_unit_test(bad_value__is_named_with_what_is_allowed),
        cmocka_unit_test(bad_values__are_all_reported_at_once),
        cmocka_unit_test(bad_value__is_shown_without_its_control_characters),
        cmocka_unit_test(pods_from_kubernetes__need_to_know_where_that_is),
        cmocka_unit_test(secret__is_read_from_a_file_without_the_newline_at_its_end),
        cmocka_unit_test(secret__file_that_cannot_be_used_is_named_with_the_reason),
        cmocka_unit_test(secret__in_a_file_is_checked_like_any_other_and_not_shown),
        cmocka_unit_test(reread__takes_what_is_in_the_file_now_and_nothing_else),
        cmocka_unit_test(reread__names_variable_and_file_of_what_is_wrong),
        cmocka_unit_test(secret__is_masked_wherever_it_comes_from),
        cmocka_unit_test(ports__must_differ_unless_they_are_free_ones),
        cmocka_unit_test(voice_agent_container__is_a_dns_label_or_unset),
        cmocka_unit_test(leader_election__times_must_fit_each_other),
        cmocka_unit_test(call_record__is_never_shorter_than_the_lease),
        cmocka_unit_test(static_pods__are_split_and_choose_their_source),
        cmocka_unit_test(static_pods__that_contradict_are_refused),
        cmocka_unit_test(errors_of_others__are_added),
        cmocka_unit_test(pod_source__is_kubernetes_where_something_says_where_that_is),
        cmocka_unit_test(show__says_the_value_and_where_it_comes_from),
        cmocka_unit_test(unknown__variables_that_look_like_settings_are_named),
        cmocka_unit_test(unknown__variables_of_others_are_not_named),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, remove_secret_file);
}
