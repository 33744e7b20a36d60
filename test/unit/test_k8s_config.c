/* test_k8s_config.c - where the API server is and who we are: inside a cluster, by a kubeconfig, by a URL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "k8s/base64.h"
#include "k8s/config.h"
#include "k8s/token.h"

#define PEM "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
/* PEM in base64. */
#define PEM_BASE64 "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="

#define CONTEXTS                                                                                             \
    "apiVersion: v1\nkind: Config\ncurrent-context: here\n"                                                  \
    "contexts:\n"                                                                                            \
    "- name: elsewhere\n  context: {cluster: b, user: nobody}\n"                                             \
    "- name: here\n  context:\n    cluster: a\n    user: me\n    namespace: voice\n"

struct fixture {
    char folder[64];
    char path[256];
    struct k8s_config *config;
    char error[K8S_CONFIG_ERROR_MAX];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/k8s-config-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    *state = fixture;
    return 0;
}

static const char *path_in(struct fixture *fixture, const char *name)
{
    snprintf(fixture->path, sizeof(fixture->path), "%s/%s", fixture->folder, name);
    return fixture->path;
}

static int teardown(void **state)
{
    static const char *const names[] = {"config", "ca.crt", "token", "namespace", "client.key"};
    struct fixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        unlink(path_in(fixture, names[i]));
    assert_int_equal(rmdir(fixture->folder), 0);
    k8s_config_free(fixture->config);
    free(fixture);
    return 0;
}

static void write_file(struct fixture *fixture, const char *name, const char *text)
{
    FILE *file = fopen(path_in(fixture, name), "wb");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int load(struct fixture *fixture, const char *text)
{
    fixture->config = k8s_config_free(fixture->config);
    write_file(fixture, "config", text);
    return k8s_config_load(path_in(fixture, "config"), &fixture->config, fixture->error);
}

/* Is refused with a sentence that has both words in it. */
static void refused(struct fixture *fixture, const char *text, int rc, const char *word, const char *other)
{
    assert_int_equal(load(fixture, text), rc);
    assert_null(fixture->config);
    if (!strstr(fixture->error, word) || !strstr(fixture->error, other))
        fail_msg("\"%s\" should speak of %s and %s", fixture->error, word, other);
}

/* ---- base64 ---- */

static void base64__decodes_every_length_and_refuses_the_rest(void **state UNUSED)
{
    static const struct {
        const char *text, *data;
    } good[] = {{"YQ==", "a"},
                {"YWI=", "ab"},
                {"YWJj", "abc"},
                {" YW\nJj\r\nZA=\t=\n", "abcd"},
                {"+/8=", "\xfb\xff"}};
    static const char *const bad[] = {"",      "Y",        "YQ",       "YQ=",  "YWI",
                                      "YWJj=", "YWJj====", "YQ==YQ==", "Y-_=", "===="};
    char *data = NULL;
    size_t len = 0;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(base64_decode(slice_of(good[i].text), &data, &len), 0);
        assert_int_equal(len, strlen(good[i].data));
        assert_string_equal(data, good[i].data);
        free(data);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(base64_decode(slice_of(bad[i]), &data, &len), -EINVAL);
}

/* ---- in a cluster ---- */

static void in_cluster__takes_the_service_account(void **state)
{
    struct fixture *fixture = *state;
    const char *hosts[][2] = {{"10.0.0.1", "https://10.0.0.1:443"}, {"fd00::1", "https://[fd00::1]:443"}};

    write_file(fixture, "ca.crt", PEM);
    write_file(fixture, "token", "eyJ.token\n");
    write_file(fixture, "namespace", "voice\n");
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        assert_int_equal(
            k8s_config_in_cluster(hosts[i][0], "443", fixture->folder, &fixture->config, fixture->error), 0);
        assert_string_equal(fixture->config->server, hosts[i][1]);
        assert_string_equal(fixture->config->token, "eyJ.token");
        assert_string_equal(fixture->config->namespace_name, "voice");
        assert_string_equal(fixture->config->ca.path, path_in(fixture, "ca.crt"));
        assert_string_equal(fixture->config->token_file, path_in(fixture, "token"));
        assert_int_equal(fixture->config->token_fresh_ms, 50000);
        assert_false(fixture->config->is_insecure);
        fixture->config = k8s_config_free(fixture->config);
    }
}

static void in_cluster__says_what_is_missing(void **state)
{
    struct fixture *fixture = *state;
    struct k8s_config *config = NULL;

    assert_int_equal(k8s_config_in_cluster(NULL, "443", fixture->folder, &config, fixture->error), -EINVAL);
    assert_non_null(strstr(fixture->error, "KUBERNETES_SERVICE_HOST"));
    assert_int_equal(k8s_config_in_cluster("10.0.0.1", "x", fixture->folder, &config, fixture->error),
                     -EINVAL);
    assert_int_equal(k8s_config_in_cluster("10.0.0.1", "443", fixture->folder, &config, fixture->error),
                     -ENOENT);
    assert_non_null(strstr(fixture->error, "ca.crt"));
    write_file(fixture, "ca.crt", "no certificate");
    assert_int_equal(k8s_config_in_cluster("10.0.0.1", "443", fixture->folder, &config, fixture->error),
                     -EINVAL);
    assert_non_null(strstr(fixture->error, "PEM"));
    write_file(fixture, "ca.crt", PEM);
    assert_int_equal(k8s_config_in_cluster("10.0.0.1", "443", fixture->folder, &config, fixture->error),
                     -ENOENT);
    assert_non_null(strstr(fixture->error, "/token"));
    write_file(fixture, "token", " \n");
    assert_int_equal(k8s_config_in_cluster("10.0.0.1", "443", fixture->folder, &config, fixture->error),
                     -EINVAL);
    write_file(fixture, "token", "two words\n");
    assert_int_equal(k8s_config_in_cluster("10.0.0.1", "443", fixture->folder, &config, fixture->error),
                     -EINVAL);
    assert_null(strstr(fixture->error, "two words"));
    write_file(fixture, "token", "t");
    assert_int_equal(k8s_config_in_cluster("10.0.0.1", "443", fixture->folder, &config, fixture->error), 0);
    assert_string_equal(config->namespace_name, "");
    k8s_config_free(config);
}

/* ---- kubeconfig ---- */

static void kubeconfig__follows_the_current_context(void **state)
{
    struct fixture *fixture = *state;

    write_file(fixture, "ca.crt", PEM);
    assert_int_equal(load(fixture, CONTEXTS "clusters:\n"
                                            "- {name: b, cluster: {server: 'https://wrong'}}\n"
                                            "- name: a\n"
                                            "  cluster:\n"
                                            "    server: https://api.example:6443/\n"
                                            "    certificate-authority: ca.crt\n"
                                            "    tls-server-name: kubernetes\n"
                                            "users:\n"
                                            "- name: me\n"
                                            "  user:\n"
                                            "    client-certificate-data: " PEM_BASE64 "\n"
                                            "    client-certificate: /nowhere\n"
                                            "    client-key-data: " PEM_BASE64 "\n"
                                            "    token: secret\n"),
                     0);
    assert_string_equal(fixture->config->server, "https://api.example:6443");
    assert_string_equal(fixture->config->namespace_name, "voice");
    assert_string_equal(fixture->config->tls_server_name, "kubernetes");
    assert_string_equal(fixture->config->ca.path, path_in(fixture, "ca.crt"));
    assert_null(fixture->config->ca.data);
    assert_string_equal(fixture->config->client_certificate.data, PEM);
    assert_int_equal(fixture->config->client_certificate.len, strlen(PEM));
    assert_null(fixture->config->client_certificate.path);
    assert_string_equal(fixture->config->client_key.data, PEM);
    assert_string_equal(fixture->config->token, "secret");
    assert_null(fixture->config->token_file);
}

static void kubeconfig__may_be_json(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(
        load(fixture,
             "{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"a\","
             "\"user\":\"\"}}],\"clusters\":[{\"name\":\"a\",\"cluster\":{\"server\":"
             "\"https://[::1]:6443\",\"insecure-skip-tls-verify\":true}}],\"users\":null}"),
        0);
    assert_string_equal(fixture->config->server, "https://[::1]:6443");
    assert_true(fixture->config->is_insecure);
    assert_null(fixture->config->token);
    assert_string_equal(fixture->config->namespace_name, "");
}

static void kubeconfig__reads_a_token_file_beside_it(void **state)
{
    struct fixture *fixture = *state;

    write_file(fixture, "token", "from-file\n");
    assert_int_equal(load(fixture,
                          CONTEXTS "clusters: [{name: a, cluster: {server: 'https://h'}}]\n"
                                   "users: [{name: me, user: {token: inline, tokenFile: ./token}}]\n"),
                     0);
    assert_string_equal(fixture->config->token, "from-file");
    assert_non_null(strstr(fixture->config->token_file, "/./token"));
}

static void kubeconfig__gives_no_credentials_to_plain_http(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(load(fixture,
                          CONTEXTS "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:8001'}}]\n"
                                   "users: [{name: me, user: {token: secret}}]\n"),
                     0);
    assert_string_equal(fixture->config->server, "http://127.0.0.1:8001");
    assert_null(fixture->config->token);
}

#define CLUSTER_A CONTEXTS "clusters: [{name: a, cluster: {server: 'https://h'}}]\n"

static void kubeconfig__names_the_field_that_is_wrong(void **state)
{
    struct fixture *fixture = *state;

    refused(fixture, "a: [", -EINVAL, "line", "YAML");
    refused(fixture, "text", -EINVAL, "not a kubeconfig", "config");
    refused(fixture, "current-context: ''\n", -EINVAL, "current-context", "missing");
    refused(fixture, "current-context: x\ncontexts: []\n", -EINVAL, "contexts", "x");
    refused(fixture, "current-context: [x]\n", -EINVAL, "current-context", "text");
    refused(fixture, "current-context: x\ncontexts: {x: y}\n", -EINVAL, "contexts", "list");
    refused(fixture, "current-context: x\ncontexts: [{name: x}]\n", -EINVAL, "context x",
            "cluster is missing");
    refused(fixture, CONTEXTS "clusters: [{name: b}]\n", -EINVAL, "clusters", "named a");
    refused(fixture, CONTEXTS "clusters: [{name: a, cluster: {}}]\n", -EINVAL, "cluster a",
            "server is missing");
    refused(fixture, CONTEXTS "clusters: [{name: a, cluster: {server: 'h:1'}}]\n", -EINVAL, "server",
            "https://");
    refused(fixture, CONTEXTS "clusters: [{name: a, cluster: {server: 'https://u:p@h'}}]\n", -EINVAL,
            "server", "password");
    refused(fixture, CONTEXTS "clusters: [{name: a, cluster: {server: 'https://h/?q'}}]\n", -EINVAL, "server",
            "path");
    refused(fixture,
            CONTEXTS
            "clusters: [{name: a, cluster: {server: 'https://h', insecure-skip-tls-verify: maybe}}]\n",
            -EINVAL, "insecure-skip-tls-verify", "true");
    refused(fixture,
            CONTEXTS "clusters: [{name: a, cluster: {server: 'https://h', proxy-url: 'http://p'}}]\n",
            -EINVAL, "proxy-url", "not supported");
    refused(fixture,
            CONTEXTS "clusters: [{name: a, cluster: {server: 'https://h', certificate-authority: no}}]\n",
            -ENOENT, "certificate-authority", "/no");
    refused(fixture,
            CONTEXTS "clusters: [{name: a, cluster: {server: 'https://h', insecure-skip-tls-verify: true, "
                     "certificate-authority-data: " PEM_BASE64 "}}]\n",
            -EINVAL, "insecure-skip-tls-verify", "exclude");
    refused(fixture, CLUSTER_A "users: []\n", -EINVAL, "users", "named me");
    refused(fixture, CLUSTER_A "users: [{name: me, user: {exec: {command: x}}}]\n", -EINVAL, "exec",
            "not supported: run `kubectl proxy`");
    refused(fixture, CLUSTER_A "users: [{name: me, user: {client-key-data: '!'}}]\n", -EINVAL,
            "client-key-data", "base64");
    refused(fixture, CLUSTER_A "users: [{name: me, user: {client-key-data: QQ==}}]\n", -EINVAL,
            "client-key-data", "PEM");
    refused(fixture, CLUSTER_A "users: [{name: me, user: {client-key-data: " PEM_BASE64 "}}]\n", -EINVAL,
            "client-certificate", "together");
    refused(fixture, CLUSTER_A "users: [{name: me, user: {tokenFile: none}}]\n", -ENOENT, "tokenFile",
            "/none");
    refused(fixture, CLUSTER_A "users: [{name: me, user: {token: \"a\\nb\"}}]\n", -EINVAL, "user me",
            "token");
    refused(fixture, CLUSTER_A "users: [{name: me, user: {token: \"a\\0b\"}}]\n", -EINVAL, "user me",
            "token");
    assert_int_equal(load(fixture, ""), -ENODATA);
    assert_int_equal(k8s_config_load("/nowhere/config", &fixture->config, fixture->error), -ENOENT);
    assert_non_null(strstr(fixture->error, "/nowhere/config"));
}

static void kubeconfig__never_tells_a_secret(void **state)
{
    struct fixture *fixture = *state;

    refused(fixture, CLUSTER_A "users: [{name: me, user: {token: 'my secret'}}]\n", -EINVAL, "token", "me");
    assert_null(strstr(fixture->error, "my secret"));
    refused(fixture, CONTEXTS "clusters: [{name: a, cluster: {server: 'https://u:secret@h'}}]\n", -EINVAL,
            "server", "a");
    assert_null(strstr(fixture->error, "secret"));
}

static void kubeconfig__has_a_limit(void **state)
{
    struct fixture *fixture = *state;
    char *text = malloc(K8S_CONFIG_FILE_MAX + 2);

    assert_non_null(text);
    memset(text, '#', K8S_CONFIG_FILE_MAX + 1);
    text[K8S_CONFIG_FILE_MAX + 1] = '\0';
    refused(fixture, text, -EMSGSIZE, "config", "too large");
    free(text);
}

static void kubeconfig__aliases_do_not_lead_astray(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(load(fixture, "current-context: &n x\n"
                                   "contexts: &all [{name: *n, context: {cluster: *n, self: *all}}]\n"
                                   "clusters: [{name: *n, cluster: {server: 'https://h'}}]\n"),
                     0);
    assert_string_equal(fixture->config->server, "https://h");
}

static void url__is_taken_without_its_last_slash(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(k8s_config_from_url("http://127.0.0.1:8001/prefix/", &fixture->config, fixture->error),
                     0);
    assert_string_equal(fixture->config->server, "http://127.0.0.1:8001/prefix");
    fixture->config = k8s_config_free(fixture->config);
    assert_int_equal(k8s_config_from_url("ftp://h", &fixture->config, fixture->error), -EINVAL);
    assert_int_equal(k8s_config_from_url("http://", &fixture->config, fixture->error), -EINVAL);
    assert_int_equal(k8s_config_from_url("http://h:99999", &fixture->config, fixture->error), -EINVAL);
}

/* ---- the token ---- */

static void token__is_read_again_when_old_or_dropped(void **state)
{
    struct fixture *fixture = *state;
    struct token token;

    write_file(fixture, "ca.crt", PEM);
    write_file(fixture, "token", "first");
    assert_int_equal(k8s_config_in_cluster("h", "1", fixture->folder, &fixture->config, fixture->error), 0);
    token_init(&token, fixture->config);
    assert_string_equal(token_get(&token, 1000), "first");
    write_file(fixture, "token", "second\n");
    assert_string_equal(token_get(&token, 1000 + 49999), "first");
    assert_string_equal(token_get(&token, 1000 + 50000), "second");
    write_file(fixture, "token", "third");
    assert_string_equal(token_get(&token, 52000), "second");
    token_drop(&token);
    assert_string_equal(token_get(&token, 52000), "third");
    assert_int_equal(unlink(path_in(fixture, "token")), 0);
    token_drop(&token);
    assert_string_equal(token_get(&token, 53000), "third");
    write_file(fixture, "token", "fourth");
    assert_string_equal(token_get(&token, 53000), "fourth");
    token_release(&token);
}

static void token__has_a_limit(void **state)
{
    struct fixture *fixture = *state;
    char *text = malloc(K8S_TOKEN_MAX + 2);
    char *token = NULL;

    assert_non_null(text);
    memset(text, 'x', K8S_TOKEN_MAX + 1);
    text[K8S_TOKEN_MAX + 1] = '\0';
    write_file(fixture, "token", text);
    assert_int_equal(k8s_token_read(path_in(fixture, "token"), &token), -EMSGSIZE);
    text[K8S_TOKEN_MAX] = '\0';
    write_file(fixture, "token", text);
    assert_int_equal(k8s_token_read(path_in(fixture, "token"), &token), 0);
    assert_int_equal(strlen(token), K8S_TOKEN_MAX);
    free(token);
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64__decodes_every_length_and_refuses_the_rest),
        TEST(in_cluster__takes_the_service_account),
        TEST(in_cluster__says_what_is_missing),
        TEST(kubeconfig__follows_the_current_context),
        TEST(kubeconfig__may_be_json),
        TEST(kubeconfig__reads_a_token_file_beside_it),
        TEST(kubeconfig__gives_no_credentials_to_plain_http),
        TEST(kubeconfig__names_the_field_that_is_wrong),
        TEST(kubeconfig__never_tells_a_secret),
        TEST(kubeconfig__has_a_limit),
        TEST(kubeconfig__aliases_do_not_lead_astray),
        TEST(url__is_taken_without_its_last_slash),
        TEST(token__is_read_again_when_old_or_dropped),
        TEST(token__has_a_limit),
    };

    return cmocka_run_group_tests_name("k8s_config", tests, NULL, NULL);
}
