/* test_k8s_pod_get.c - one pod is asked for by its name, with an API server that the test owns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_k8s.h"
#include "k8s/pod_get.h"

enum { TIMEOUT_MS = 5000 };

#define AGENT                                                                                                \
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"agent-0\",\"uid\":\"u-1\"},\"spec\":{\"containers\":["       \
    "{\"name\":\"mesh\"},{\"name\":\"agent\"}]},\"status\":{\"containerStatuses\":["                         \
    "{\"name\":\"mesh\",\"restartCount\":9},{\"name\":\"agent\",\"restartCount\":2}]}}"

static struct world {
    struct k8s_pod_get *get;
    unsigned answers;
    int err;
    char pod[128];
    char error[1024];
} world;

static void on_got(void *arg, int err, const struct k8s_pod *pod, const char *error)
{
    assert_ptr_equal(arg, &world);
    assert_int_equal(pod != NULL, err == 0);
    assert_non_null(error);
    world.get = NULL;
    world.answers++;
    world.err = err;
    if (pod)
        k8s_pod_incarnation(pod, world.pod);
    snprintf(world.error, sizeof(world.error), "%s", error);
}

static int ask(void)
{
    /* The strings are borrowed during the call only. */
    char namespace_name[] = "voice", name[] = "agent-0", container[] = "agent";
    struct k8s_pod_get_spec spec = {.namespace_name = namespace_name,
                                    .name = name,
                                    .agent_container = container,
                                    .timeout_ms = TIMEOUT_MS};
    int rc = k8s_pod_get(fake_client(), &spec, on_got, &world, &world.get);

    memset(namespace_name, '!', sizeof(namespace_name));
    memset(name, '!', sizeof(name));
    memset(container, '!', sizeof(container));
    return rc;
}

static int setup(void **state UNUSED)
{
    fake_init();
    memset(&world, 0, sizeof(world));
    return 0;
}

static int teardown(void **state UNUSED)
{
    fake_release();
    return 0;
}

static void ask_and_answer(int status, const char *body)
{
    unsigned answers = world.answers;

    assert_int_equal(ask(), 0);
    fake_answer(status, body);
    assert_int_equal(world.answers, answers + 1);
}

static void get__asks_by_name_and_tells_the_pod(void **state UNUSED)
{
    assert_int_equal(ask(), 0);
    assert_int_equal(world.answers, 0);
    assert_int_equal(fake.requests[0]->method, K8S_GET);
    assert_string_equal(fake.requests[0]->path, "/api/v1/namespaces/voice/pods/agent-0");
    assert_int_equal(fake.requests[0]->timeout_ms, TIMEOUT_MS);
    fake_answer(200, AGENT);
    assert_int_equal(world.answers, 1);
    assert_int_equal(world.err, 0);
    assert_string_equal(world.pod, "u-1:2");
}

static void get__of_a_pod_that_does_not_exist_says_so(void **state UNUSED)
{
    ask_and_answer(
        404, "{\"kind\":\"Status\",\"reason\":\"NotFound\",\"code\":404,\"message\":\"pods \\\"agent-0\\\" "
             "not found\",\"details\":{\"name\":\"agent-0\",\"kind\":\"pods\"}}");
    assert_int_equal(world.err, -ENOENT);
}

static void get__that_is_refused_says_nothing_about_the_pod(void **state UNUSED)
{
    static const struct {
        int status;
        int err;
        const char *body;
    } cases[] = {
        {401, -EACCES, "{\"reason\":\"Unauthorized\",\"message\":\"who are you\"}"},
        {403, -EACCES, "{\"reason\":\"Forbidden\",\"message\":\"you may not\"}"},
        {404, -EPROTO, "<html>404 page not found</html>"},
        {404, -EPROTO, ""},
        {404, -EPROTO, "{\"reason\":\"NotFound\",\"message\":\"what is this path\",\"details\":{}}"},
        {404, -EPROTO, "{\"reason\":\"NotFound\",\"details\":{\"name\":\"voice\",\"kind\":\"namespaces\"}}"},
        {404, -EPROTO, "{\"reason\":\"NotFound\",\"details\":{\"name\":\"agent-1\",\"kind\":\"pods\"}}"},
        {404, -EPROTO, "{\"reason\":\"NotFound\",\"details\":{\"name\":7,\"kind\":[]}}"},
        {429, -EAGAIN, "{\"reason\":\"TooManyRequests\"}"},
        {500, -EAGAIN, ""},
        {503, -EAGAIN, ""},
        {302, -EPROTO, ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char status[16];

        ask_and_answer(cases[i].status, cases[i].body);
        assert_int_equal(world.err, cases[i].err);
        snprintf(status, sizeof(status), "status %d", cases[i].status);
        assert_non_null(strstr(world.error, status));
    }
    ask_and_answer(403, cases[1].body);
    assert_non_null(strstr(world.error, "you may not"));
}

static void get__that_cannot_be_read_says_nothing_about_the_pod(void **state UNUSED)
{
    static const char *const bodies[] = {"",
                                         "7",
                                         "{",
                                         "[]",
                                         "{}",
                                         "{\"metadata\":{\"name\":\"agent-0\"}}",
                                         "{\"metadata\":{\"name\":\"agent-1\",\"uid\":\"u-1\"}}"};

    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        ask_and_answer(200, bodies[i]);
        assert_int_equal(world.err, -EBADMSG);
        assert_true(world.error[0]);
    }
}

static void get__that_fails_on_its_way_says_nothing_about_the_pod(void **state UNUSED)
{
    static const int errs[] = {-ETIMEDOUT, -ECONNREFUSED, -EPROTO, -EMSGSIZE};

    for (size_t i = 0; i < ARRAY_LEN(errs); i++) {
        assert_int_equal(ask(), 0);
        fake_fail(errs[i]);
        assert_int_equal(world.err, errs[i]);
        assert_true(world.error[0]);
    }
    assert_int_equal(ask(), 0);
    fake_fail(-ENOENT);
    assert_int_not_equal(world.err, -ENOENT);
}

static void get__that_is_cancelled_tells_nothing(void **state UNUSED)
{
    assert_int_equal(ask(), 0);
    k8s_pod_get_cancel(world.get);
    assert_int_equal(fake.cancelled, 1);
    fake_advance(60000);
    assert_int_equal(world.answers, 0);
}

static void get__that_the_client_does_not_take_says_so_at_once(void **state UNUSED)
{
    fake.refuse = -EBUSY;
    assert_int_equal(ask(), -EBUSY);
    fake.refuse = 0;
    assert_int_equal(world.answers, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(get__asks_by_name_and_tells_the_pod),
        TEST(get__of_a_pod_that_does_not_exist_says_so),
        TEST(get__that_is_refused_says_nothing_about_the_pod),
        TEST(get__that_cannot_be_read_says_nothing_about_the_pod),
        TEST(get__that_fails_on_its_way_says_nothing_about_the_pod),
        TEST(get__that_is_cancelled_tells_nothing),
        TEST(get__that_the_client_does_not_take_says_so_at_once),
    };

    return cmocka_run_group_tests_name("k8s_pod_get", tests, NULL, NULL);
}
