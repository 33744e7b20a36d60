/* test_redis_link.c - the parts of the link to Redis that need no Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/redis/address.h"
#include "store/redis/cluster.h"
#include "store/redis/reply.h"
#include "store/redis/resp.h"
#include "store/redis/script_table.h"

static struct redis_link_settings settings;
static char credentials[64];
static char error[256];

static int parse(const char *url)
{
    memset(&settings, 0xff, sizeof(settings));
    error[0] = '\0';
    return redis_link_parse_url(url, &settings, credentials, sizeof(credentials), error, sizeof(error));
}

static void url__host_port_and_database(void **state UNUSED)
{
    assert_int_equal(parse("redis://redis.local:6380/3"), 0);
    assert_string_equal(settings.servers[0].host, "redis.local");
    assert_int_equal(settings.servers[0].port, 6380);
    assert_int_equal(settings.database, 3);
    assert_string_equal(settings.user, "");
    assert_string_equal(settings.password, "");
}

static void url__port_and_database_have_defaults(void **state UNUSED)
{
    static const char *const urls[] = {"redis://10.0.0.1", "redis://10.0.0.1/", "redis://10.0.0.1:6379",
                                       "redis://10.0.0.1?db=0"};

    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        assert_int_equal(parse(urls[i]), 0);
        assert_string_equal(settings.servers[0].host, "10.0.0.1");
        assert_int_equal(settings.servers[0].port, 6379);
        assert_int_equal(settings.database, 0);
    }
}

static void url__credentials_are_decoded(void **state UNUSED)
{
    assert_int_equal(parse("redis://al%69ce:p%40ss%3Aw%2fd@h:1"), 0);
    assert_string_equal(settings.user, "alice");
    assert_string_equal(settings.password, "p@ss:w/d");
    assert_int_equal(parse("redis://:secret@h"), 0);
    assert_string_equal(settings.user, "");
    assert_string_equal(settings.password, "secret");
    assert_int_equal(parse("redis://u:a@b:c@h"), 0);
    assert_string_equal(settings.password, "a@b:c");
    assert_string_equal(settings.servers[0].host, "h");
    assert_int_equal(parse("redis://u:p%61@h"), 0);
    assert_string_equal(settings.password, "pa");
}

static void url__ipv6_needs_brackets(void **state UNUSED)
{
    assert_int_equal(parse("redis://[::1]:7000/1"), 0);
    assert_string_equal(settings.servers[0].host, "::1");
    assert_int_equal(settings.servers[0].port, 7000);
    assert_int_equal(parse("redis://[fe80::1]"), 0);
    assert_int_equal(settings.servers[0].port, 6379);
    assert_int_equal(parse("redis://::1:7000"), -EINVAL);
    assert_int_equal(parse("redis://[::1"), -EINVAL);
    assert_int_equal(parse("redis://[::1]7000"), -EINVAL);
}

static void url__socket(void **state UNUSED)
{
    assert_int_equal(parse("unix:///run/redis/redis%20a.sock?db=2"), 0);
    assert_string_equal(settings.servers[0].host, "/run/redis/redis a.sock");
    assert_int_equal(settings.servers[0].port, 0);
    assert_int_equal(settings.database, 2);
    assert_int_equal(parse("unix://u:p@/tmp/r.sock"), 0);
    assert_string_equal(settings.servers[0].host, "/tmp/r.sock");
    assert_string_equal(settings.user, "u");
    assert_string_equal(settings.password, "p");
}

static void url__wrong_ones_are_refused_with_a_sentence_that_holds_no_secret(void **state UNUSED)
{
    static const char *const urls[] = {
        "",
        "http://h",
        "redis:h",
        "redis://",
        "redis://:hidden@",
        "redis://u:hidden@/1",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:hidden",
        "redis://h:",
        "redis://h/x",
        "redis://h/-1",
        "redis://h/99999999",
        "redis://h/1?hidden=1",
        "redis://h?db=",
        "redis://hidden@h",
        "redis://u:@h",
        "redis://u:hidden%zz@h",
        "redis://u:hidden%4@h",
        "redis://u:hidden%@h",
        "redis://u:hidden%00@h",
        "redis://u:hidden-that-is-much-longer-than-the-sixty-four-bytes-that-there-are@h",
        "unix://",
        "unix://hidden",
        "unix:///",
        "unix:///a%00b",
    };

    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        if (parse(urls[i]) != -EINVAL)
            fail_msg("%s was taken", urls[i]);
        assert_true(strlen(error) > 10);
        assert_null(strstr(error, "hidden"));
    }
}

static void url__rediss_is_tls(void **state UNUSED)
{
    assert_int_equal(parse("rediss://u:p@h:6380/3"), 0);
    assert_true(settings.is_tls);
    assert_string_equal(settings.servers[0].host, "h");
    assert_int_equal(settings.servers[0].port, 6380);
    assert_string_equal(settings.password, "p");
    assert_int_equal(settings.database, 3);
    assert_int_equal(parse("rediss://h1,h2"), 0);
    assert_true(settings.is_tls && settings.server_count == 2);
    assert_int_equal(parse("rediss://h1,rediss://h2"), 0);
    assert_true(settings.is_tls && settings.server_count == 2);
    assert_int_equal(parse("redis://h"), 0);
    assert_false(settings.is_tls);
}

static void url__a_long_host_or_path_is_refused(void **state UNUSED)
{
    char url[400];

    snprintf(url, sizeof(url), "redis://%0255d", 1);
    assert_int_equal(parse(url), 0);
    snprintf(url, sizeof(url), "redis://%0256d", 1);
    assert_int_equal(parse(url), -EINVAL);
    snprintf(url, sizeof(url), "unix:///%0106d", 1);
    assert_int_equal(parse(url), 0);
    snprintf(url, sizeof(url), "unix:///%0107d", 1);
    assert_int_equal(parse(url), -EINVAL);
}

static void assert_servers(const char *url, const char *expected)
{
    char found[1024] = "";
    char one[ADDRESS_TEXT_MAX];

    if (parse(url))
        fail_msg("%s: %s", url, error);
    for (size_t i = 0; i < settings.server_count; i++) {
        size_t len = strlen(found);

        snprintf(found + len, sizeof(found) - len, "%s%s", i ? " " : "",
                 address_text(&settings.servers[i], one, sizeof(one)));
    }
    assert_string_equal(found, expected);
}

static void url__several_servers(void **state UNUSED)
{
    assert_servers("redis://h", "h:6379");
    assert_servers("redis://h1:1,h2:2,h3:3/0", "h1:1 h2:2 h3:3");
    assert_servers("redis://h1,h2:2?db=4", "h1:6379 h2:2");
    assert_int_equal(settings.database, 4);
    assert_servers("redis://[::1]:1, [::2] ,10.0.0.1", "::1:1 ::2:6379 10.0.0.1:6379");
    assert_servers("redis://h1:1,redis://h2:2", "h1:1 h2:2");
    assert_servers("redis://h1:1, redis://h2:2,h3", "h1:1 h2:2 h3:6379");
    assert_servers("redis://h1,h2,redis://h1:6379,h3/", "h1:6379 h2:6379 h3:6379");
    assert_servers("unix:///a,b.sock", "/a,b.sock");
}

static void url__the_servers_of_a_list_share_user_password_and_database(void **state UNUSED)
{
    assert_servers("redis://u:p,a@b,c@h1:1,h2:2/3", "h1:1 h2:2");
    assert_string_equal(settings.user, "u");
    assert_string_equal(settings.password, "p,a@b,c");
    assert_int_equal(settings.database, 3);
    assert_servers("redis://u:p%2Cq@h1,redis://u:p,q@h2,redis://h3", "h1:6379 h2:6379 h3:6379");
    assert_string_equal(settings.user, "u");
    assert_string_equal(settings.password, "p,q");
    assert_int_equal(settings.database, 0);
    assert_servers("redis://h1,redis://:p@h2/2,redis://h3/2", "h1:6379 h2:6379 h3:6379");
    assert_string_equal(settings.user, "");
    assert_string_equal(settings.password, "p");
    assert_int_equal(settings.database, 2);
}

static void assert_refused(const char *url, const char *why)
{
    assert_int_equal(parse(url), -EINVAL);
    if (!strstr(error, why))
        fail_msg("%s: %s", url, error);
    assert_null(strstr(error, "hidden"));
}

static void url__wrong_lists_are_refused(void **state UNUSED)
{
    char url[256] = "redis://h0";

    assert_refused("redis://u:hidden@h1,redis://u:hidden2@h2", "different users or passwords");
    assert_refused("redis://u:hidden@h1,redis://:hidden@h2", "different users or passwords");
    assert_refused("redis://h1/1,redis://h2/2", "different databases");
    assert_refused("redis://h1/0,redis://h2/2", "different databases");
    assert_refused("redis://h1?db=1,redis://h2/2", "different databases");
    assert_refused("redis://h1/1,h2", "behind the last host");
    assert_refused("redis://h1,,h2", "the host is missing");
    assert_refused("redis://h1,", "the host is missing");
    assert_refused("redis://,h1", "the host is missing");
    assert_refused("redis://h1,h2:hidden", "the port must be");
    assert_refused("redis://h1,u:hidden@h2", "all hosts stand behind the @");
    assert_refused("redis://h1,http://h2", "it must begin with");
    assert_refused("redis://h1,unix:///a", "unix:// stands alone");
    assert_refused("unix:///a,redis://h1", "unix:// stands alone");
    assert_refused("redis://h1,rediss://h2", "different schemes");
    assert_refused("rediss://h1,redis://h2", "different schemes");
    for (size_t i = 1; i < 16; i++)
        snprintf(url + strlen(url), sizeof(url) - strlen(url), ",h%zu", i);
    assert_int_equal(parse(url), 0);
    assert_int_equal(settings.server_count, 16);
    snprintf(url + strlen(url), sizeof(url) - strlen(url), ",h0");
    assert_int_equal(parse(url), 0);
    snprintf(url + strlen(url), sizeof(url) - strlen(url), ",h16");
    assert_refused(url, "more than 16 servers");
}

static void sentinels__a_list(void **state UNUSED)
{
    char many[1024] = "a";

    assert_int_equal(redis_link_parse_sentinels("a:1, b ,[::1]:3", &settings, error, sizeof(error)), 0);
    assert_int_equal(settings.sentinel_count, 3);
    assert_string_equal(settings.sentinels[0].host, "a");
    assert_int_equal(settings.sentinels[0].port, 1);
    assert_string_equal(settings.sentinels[1].host, "b");
    assert_int_equal(settings.sentinels[1].port, 26379);
    assert_string_equal(settings.sentinels[2].host, "::1");
    assert_int_equal(redis_link_parse_sentinels("", &settings, error, sizeof(error)), -EINVAL);
    assert_int_equal(redis_link_parse_sentinels("a,,b", &settings, error, sizeof(error)), -EINVAL);
    assert_int_equal(redis_link_parse_sentinels("a,b:x", &settings, error, sizeof(error)), -EINVAL);
    for (size_t i = 1; i < 16; i++)
        memcpy(many + 2 * i - 1, ",a", 3);
    assert_int_equal(redis_link_parse_sentinels(many, &settings, error, sizeof(error)), 0);
    memcpy(many + 31, ",a", 3);
    assert_int_equal(redis_link_parse_sentinels(many, &settings, error, sizeof(error)), -EINVAL);
}

static void error__every_code_has_its_errno(void **state UNUSED)
{
    static const struct {
        const char *text;
        int err;
    } cases[] = {
        {"LOADING Redis is loading the dataset in memory", -EAGAIN},
        {"BUSY Redis is busy running a script.", -EAGAIN},
        {"BUSYGROUP Consumer Group name already exists", -EIO},
        {"MASTERDOWN Link with MASTER is down", -EAGAIN},
        {"TRYAGAIN Multiple keys request during rehashing of slot", -EAGAIN},
        {"CLUSTERDOWN The cluster is down", -EAGAIN},
        {"ASK 3999 127.0.0.1:6381", -EAGAIN},
        {"MOVED 3999 127.0.0.1:6381", -EAGAIN},
        {"READONLY You can't write against a read only replica.", -EROFS},
        {"OOM command not allowed when used memory > 'maxmemory'.", -ENOSPC},
        {"MISCONF Redis is configured to save RDB snapshots", -ENOSPC},
        {"NOAUTH Authentication required.", -EACCES},
        {"WRONGPASS invalid username-password pair or user is disabled.", -EACCES},
        {"NOPERM this user has no permissions", -EACCES},
        {"ERR The user executing the script can't run this command or subcommand script: f_1", -EACCES},
        {"WRONGTYPE Operation against a key holding the wrong kind of value script: f_1, on @user_script:1.",
         -EBADMSG},
        {"ERR unknown command 'WRONGTYPE'", -EIO},
        {"ERR WRONGTYPE", -EIO},
        {"NOSCRIPT No matching script. Please use EVAL.", -EIO},
        {"", -EIO},
        {"OOM", -ENOSPC},
        {"ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation against a key",
         -EBADMSG},
        {"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write",
         -EROFS},
        {"ERR Error running script (call to f_1): @user_script:3: -OOM command not allowed", -ENOSPC},
        {"ERR Error running script (call to f_1): @user_script:3: attempt to index a nil value", -EIO},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (reply_errno(cases[i].text) != cases[i].err)
            fail_msg("%s: %d", cases[i].text, reply_errno(cases[i].text));
    }
}

static void moved__says_where_to(void **state UNUSED)
{
    struct redis_address node;

    assert_true(reply_moved_to("MOVED 3999 10.0.0.2:6381", "h", &node));
    assert_string_equal(node.host, "10.0.0.2");
    assert_int_equal(node.port, 6381);
    assert_true(reply_moved_to("MOVED 3999 :6381", "asked", &node));
    assert_string_equal(node.host, "asked");
    assert_true(reply_moved_to("MOVED 3999 2001:db8::1:6381", "h", &node));
    assert_string_equal(node.host, "2001:db8::1");
    assert_int_equal(node.port, 6381);
}

static void moved__nonsense_is_not_followed(void **state UNUSED)
{
    static const char *const texts[] = {
        "MOVED",         "MOVED 1",         "MOVED 1 ",           "MOVED 1 host",
        "MOVED 1 host:", "MOVED 1 host:0",  "MOVED 1 host:65536", "MOVED 1 host:12x",
        "ASK 1 host:1",  "MOVEDX 1 host:1", "ERR MOVED 1 host:1",
    };
    struct redis_address node;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (reply_moved_to(texts[i], "h", &node))
            fail_msg("%s was followed", texts[i]);
    }
}

static redisReply *read_reply(redisReader *reader, const char *protocol)
{
    void *reply = NULL;

    redisReaderFeed(reader, protocol, strlen(protocol));
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    return reply;
}

static void cluster_nodes__each_once_and_not_more_than_fit(void **state UNUSED)
{
    static const char slots[] =
        "*3\r\n"
        "*4\r\n:0\r\n:10\r\n*2\r\n$1\r\na\r\n:1\r\n*2\r\n$1\r\nb\r\n:2\r\n"
        "*3\r\n:11\r\n:20\r\n*2\r\n$1\r\na\r\n:1\r\n"
        "*6\r\n:21\r\n:30\r\n*2\r\n$-1\r\n:3\r\n:7\r\n*2\r\n$1\r\nc\r\n:0\r\n*2\r\n$1\r\n?\r\n:4\r\n";
    redisReader *reader = redisReaderCreate();
    redisReply *reply = read_reply(reader, slots);
    struct redis_address nodes[8];

    assert_int_equal(reply_cluster_nodes(reply, "asked", nodes, 8), 3);
    assert_string_equal(nodes[0].host, "a");
    assert_string_equal(nodes[1].host, "b");
    assert_int_equal(nodes[1].port, 2);
    assert_string_equal(nodes[2].host, "asked");
    assert_int_equal(nodes[2].port, 3);
    assert_int_equal(reply_cluster_nodes(reply, "asked", nodes, 2), 2);
    freeReplyObject(reply);
    reply = read_reply(reader, "+OK\r\n");
    assert_int_equal(reply_cluster_nodes(reply, "asked", nodes, 8), 0);
    freeReplyObject(reply);
    redisReaderFree(reader);
}

static void resp__measures_and_writes_the_same(void **state UNUSED)
{
    static const char expected[] = "*4\r\n$3\r\nSET\r\n$0\r\n\r\n$10\r\n0123456789\r\n$3\r\na\0b\r\n";
    const struct slice args[] = {SLICE("SET"), {NULL, 0}, SLICE("0123456789"), {"a\0b", 3}};
    char text[128];
    char *end;

    assert_int_equal(resp_size(args, ARRAY_LEN(args)), sizeof(expected) - 1);
    end = resp_write(text, args, ARRAY_LEN(args));
    assert_ptr_equal(end, text + sizeof(expected) - 1);
    assert_memory_equal(text, expected, sizeof(expected) - 1);
}

static void scripts__every_one_is_found_by_its_name(void **state UNUSED)
{
    for (size_t i = 0; i < redis_script_count; i++) {
        const struct redis_script *script = redis_script(redis_script_table[i].name);

        assert_ptr_equal(script, &redis_script_table[i]);
        assert_int_equal(strlen(script->text), script->text_len);
        assert_int_equal(strlen(script->sha), 40);
    }
    assert_null(redis_script_table[redis_script_count].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(url__host_port_and_database),
        cmocka_unit_test(url__port_and_database_have_defaults),
        cmocka_unit_test(url__credentials_are_decoded),
        cmocka_unit_test(url__ipv6_needs_brackets),
        cmocka_unit_test(url__socket),
        cmocka_unit_test(url__wrong_ones_are_refused_with_a_sentence_that_holds_no_secret),
        cmocka_unit_test(url__rediss_is_tls),
        cmocka_unit_test(url__a_long_host_or_path_is_refused),
        cmocka_unit_test(url__several_servers),
        cmocka_unit_test(url__the_servers_of_a_list_share_user_password_and_database),
        cmocka_unit_test(url__wrong_lists_are_refused),
        cmocka_unit_test(sentinels__a_list),
        cmocka_unit_test(error__every_code_has_its_errno),
        cmocka_unit_test(moved__says_where_to),
        cmocka_unit_test(moved__nonsense_is_not_followed),
        cmocka_unit_test(cluster_nodes__each_once_and_not_more_than_fit),
        cmocka_unit_test(resp__measures_and_writes_the_same),
        cmocka_unit_test(scripts__every_one_is_found_by_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
