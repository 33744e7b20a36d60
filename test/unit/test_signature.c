/* test_signature.c - who has signed a webhook: the vectors of the providers' libraries, and what a byte
 * changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/providers/basic_auth.h"
#include "api/providers/signature.h"

#define TWILIO_QUERY "/myapp.php?foo=1&bar=2"
#define TWILIO_BODY                                                                                          \
    "To=%2B18005551212&Digits=1234&From=%2B14158675309&Caller=%2B14158675309&CallSid=CA1234567890ABCDE"
#define TWILIO_JSON "{\"property\": \"value\", \"boolean\": true}"
#define TWILIO_HASHED                                                                                        \
    "https://mycompany.com" TWILIO_QUERY                                                                     \
    "&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"
#define TWILIO_SIGNATURE "RSOYDt4T1cUTdK1PDd93/VVr8B8="
#define PLIVO_POST "L0PU6ioCnW8yREk1APZu9n8lHP63l+BVtiYiZPjOUpc="
#define PLIVO_GET "faSxTavsqPMrd0GVOLux4oBI8YnigVJR+bBNAYP6bcI="

static const struct signature_tokens twilio_token = {{SLICE("12345")}, 1};
static const struct signature_tokens plivo_token = {{SLICE("my_auth_token")}, 1};

static int twilio_with(const struct signature_tokens *tokens, bool is_post, struct slice url,
                       struct slice body, struct slice signature)
{
    const struct signed_request request = {is_post, url, body};
    struct arena arena;
    int err;

    arena_init(&arena, 1024 * 1024);
    err = signature_check_twilio(&arena, tokens, &request, signature);
    arena_release(&arena);
    return err;
}

static int twilio(const char *url, const char *body, const char *signature)
{
    return twilio_with(&twilio_token, true, slice_of(url), slice_of(body), slice_of(signature));
}

static int plivo_with(const struct signature_tokens *tokens, bool is_post, struct slice url,
                      struct slice body, struct slice signatures, struct slice nonce)
{
    const struct signed_request request = {is_post, url, body};
    struct arena arena;
    int err;

    arena_init(&arena, 1024 * 1024);
    err = signature_check_plivo(&arena, tokens, &request, signatures, nonce);
    arena_release(&arena);
    return err;
}

static int plivo_post(const char *url, const char *body, const char *signatures)
{
    return plivo_with(&plivo_token, true, slice_of(url), slice_of(body), slice_of(signatures),
                      SLICE("12345"));
}

static int plivo_get(const char *url, const char *signatures)
{
    return plivo_with(&plivo_token, false, slice_of(url), SLICE(""), slice_of(signatures), SLICE("12345"));
}

static void twilio__the_vectors_hold(void **state UNUSED)
{
    assert_int_equal(twilio("https://mycompany.com" TWILIO_QUERY, TWILIO_BODY, TWILIO_SIGNATURE), 0);
    assert_int_equal(
        twilio("https://mycompany.com:443" TWILIO_QUERY, TWILIO_BODY, "kvajT1Ptam85bY51eRf/AJRuM3w="), 0);
    assert_int_equal(
        twilio("http://mycompany.com:80" TWILIO_QUERY, TWILIO_BODY, "0ZXoZLH/DfblKGATFgpif+LLRf4="), 0);
    assert_int_equal(
        twilio("http://mycompany.com:1234" TWILIO_QUERY, TWILIO_BODY, "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="), 0);
    assert_int_equal(twilio("https://mycompany.com" TWILIO_QUERY,
                            "Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234",
                            "IK+Dwps556ElfBT0I3Rgjkr1wJU="),
                     0);
    assert_int_equal(twilio(TWILIO_HASHED, TWILIO_JSON, "a9nBmqA0ju/hNViExpshrM61xv4="), 0);
}

static void twilio__the_port_may_be_there_or_not(void **state UNUSED)
{
    /* Signed with :443 and asked without, and the other way round. */
    assert_int_equal(
        twilio("https://mycompany.com" TWILIO_QUERY, TWILIO_BODY, "kvajT1Ptam85bY51eRf/AJRuM3w="), 0);
    assert_int_equal(twilio("https://mycompany.com:443" TWILIO_QUERY, TWILIO_BODY, TWILIO_SIGNATURE), 0);
    assert_int_equal(twilio("https://mycompany.com:8443" TWILIO_QUERY, TWILIO_BODY, TWILIO_SIGNATURE), 0);
    assert_int_equal(
        twilio("https://mycompany.com:8443" TWILIO_QUERY, TWILIO_BODY, "kvajT1Ptam85bY51eRf/AJRuM3w="),
        -EKEYREJECTED);
    assert_int_equal(twilio("http://mycompany.com" TWILIO_QUERY, TWILIO_BODY, TWILIO_SIGNATURE),
                     -EKEYREJECTED);
}

static void twilio__any_token_may_have_signed(void **state UNUSED)
{
    const struct signature_tokens both = {{SLICE("new"), SLICE("12345")}, 2};
    const struct signature_tokens other = {{SLICE("12346")}, 1};
    struct slice url = SLICE("https://mycompany.com" TWILIO_QUERY);

    assert_int_equal(twilio_with(&both, true, url, SLICE(TWILIO_BODY), SLICE(TWILIO_SIGNATURE)), 0);
    assert_int_equal(twilio_with(&other, true, url, SLICE(TWILIO_BODY), SLICE(TWILIO_SIGNATURE)),
                     -EKEYREJECTED);
}

static void twilio__no_byte_may_change(void **state UNUSED)
{
    static const char url[] = "https://mycompany.com" TWILIO_QUERY;
    static const char signature[] = TWILIO_SIGNATURE;
    char text[sizeof(url)];

    for (size_t i = 0; i < sizeof(url) - 1; i++) {
        memcpy(text, url, sizeof(url));
        text[i] ^= 1;
        assert_int_not_equal(twilio(text, TWILIO_BODY, TWILIO_SIGNATURE), 0);
    }
    for (size_t i = 0; i < sizeof(signature) - 1; i++) {
        memcpy(text, signature, sizeof(signature));
        text[i] ^= 1;
        assert_int_equal(twilio(url, TWILIO_BODY, text), -EKEYREJECTED);
    }
    assert_int_equal(twilio(url, TWILIO_BODY, "RSOYDt4T1cUTdK1PDd93/VVr8B8"), -EKEYREJECTED);
    assert_int_equal(twilio(url, TWILIO_BODY, TWILIO_SIGNATURE "="), -EKEYREJECTED);
    assert_int_equal(twilio(url, TWILIO_BODY "&More=1", TWILIO_SIGNATURE), -EKEYREJECTED);
    assert_int_equal(twilio(url, "", TWILIO_SIGNATURE), -EKEYREJECTED);
}

static void twilio__the_hash_of_the_body_must_fit(void **state UNUSED)
{
    assert_int_equal(
        twilio(TWILIO_HASHED, "{\"property\": \"value\", \"boolean\": tru}", "a9nBmqA0ju/hNViExpshrM61xv4="),
        -EKEYREJECTED);
    assert_int_equal(twilio(TWILIO_HASHED, "", "a9nBmqA0ju/hNViExpshrM61xv4="), -EKEYREJECTED);
}

static void twilio__what_is_missing_is_told_from_what_is_wrong(void **state UNUSED)
{
    assert_int_equal(twilio("https://mycompany.com" TWILIO_QUERY, TWILIO_BODY, ""), -ENOKEY);
    assert_int_equal(
        twilio_with(&twilio_token, true, SLICE("https://mycompany.com/"), SLICE(""), (struct slice){NULL, 0}),
        -ENOKEY);
    assert_int_equal(twilio("", TWILIO_BODY, TWILIO_SIGNATURE), -EBADMSG);
    assert_int_equal(twilio("ftp://mycompany.com/", TWILIO_BODY, TWILIO_SIGNATURE), -EBADMSG);
    assert_int_equal(twilio("https:///path", TWILIO_BODY, TWILIO_SIGNATURE), -EBADMSG);
    assert_int_equal(twilio("https://:443/path", TWILIO_BODY, TWILIO_SIGNATURE), -EBADMSG);
}

static void nobody_hides_a_nul(void **state UNUSED)
{
    assert_int_equal(twilio("https://mycompany.com/", "CallSid=CA1%00x", TWILIO_SIGNATURE), -EBADMSG);
    assert_int_equal(twilio("https://mycompany.com/", "CallSid%00x=CA1", TWILIO_SIGNATURE), -EBADMSG);
    assert_int_equal(plivo_post("https://answer.url/a?a%00=1", "", PLIVO_POST), -EBADMSG);
    assert_int_equal(plivo_post("https://answer.url/a", "a=%00", PLIVO_POST), -EBADMSG);
}

static void a_get_has_no_body(void **state UNUSED)
{
    struct slice url = SLICE("https://mycompany.com" TWILIO_QUERY);

    assert_int_equal(twilio_with(&twilio_token, false, url, SLICE(TWILIO_BODY), SLICE(TWILIO_SIGNATURE)),
                     -EBADMSG);
    assert_int_equal(plivo_with(&plivo_token, false, SLICE("https://answer.url/a?b=1+2&a=%2B9"),
                                SLICE("CallUUID=x"), SLICE(PLIVO_GET), SLICE("12345")),
                     -EBADMSG);
}

static void too_much_is_refused(void **state UNUSED)
{
    enum { LONG = 70 * 1024 };
    char *text = malloc(LONG + 1);

    assert_non_null(text);
    memset(text, 'a', LONG);
    text[LONG] = '\0';
    assert_int_equal(twilio("https://mycompany.com/", text, TWILIO_SIGNATURE), -EBADMSG);
    assert_int_equal(plivo_post("https://answer.url/a", text, PLIVO_POST), -EBADMSG);
    memcpy(text, "https://", 8);
    assert_int_equal(twilio(text, "", TWILIO_SIGNATURE), -EBADMSG);
    memset(text, '&', LONG);
    for (size_t i = 0; i < 600; i += 2)
        text[i] = 'a';
    text[600] = '\0';
    assert_int_equal(twilio("https://mycompany.com/", text, TWILIO_SIGNATURE), -EBADMSG);
    memset(text, ',', 40);
    text[40] = '\0';
    assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=x&From=1", text), -EBADMSG);
    memset(text, '1', 300);
    text[300] = '\0';
    assert_int_equal(plivo_with(&plivo_token, true, SLICE("https://answer.url/a"), SLICE("CallUUID=x&From=1"),
                                SLICE(PLIVO_POST), slice_of(text)),
                     -EBADMSG);
    free(text);
}

static void plivo__the_vectors_hold(void **state UNUSED)
{
    assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=x&From=1", PLIVO_POST), 0);
    assert_int_equal(plivo_post("https://answer.url/a", "From=1&CallUUID=x", PLIVO_POST), 0);
    assert_int_equal(plivo_get("https://answer.url/a?b=1+2&a=%2B9", PLIVO_GET), 0);
    assert_int_equal(plivo_get("https://answer.url/a?a=%2B9&b=1%202", PLIVO_GET), 0);
}

static void plivo__any_signature_of_the_list_may_fit(void **state UNUSED)
{
    assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=x&From=1", "x," PLIVO_POST), 0);
    assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=x&From=1", PLIVO_POST ",x"), 0);
    assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=x&From=1", "x, " PLIVO_POST " ,y"), 0);
    assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=x&From=1", "x,,y"), -EKEYREJECTED);
}

static void plivo__no_byte_may_change(void **state UNUSED)
{
    static const char signature[] = PLIVO_POST;
    char text[sizeof(signature)];

    for (size_t i = 0; i < sizeof(signature) - 1; i++) {
        memcpy(text, signature, sizeof(signature));
        text[i] ^= 1;
        assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=x&From=1", text), -EKEYREJECTED);
    }
    assert_int_equal(plivo_post("https://answer.url/b", "CallUUID=x&From=1", PLIVO_POST), -EKEYREJECTED);
    assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=y&From=1", PLIVO_POST), -EKEYREJECTED);
    assert_int_equal(plivo_post("https://answer.url:443/a", "CallUUID=x&From=1", PLIVO_POST), -EKEYREJECTED);
    assert_int_equal(plivo_get("https://answer.url/a?b=1+2&a=%2B8", PLIVO_GET), -EKEYREJECTED);
    assert_int_equal(plivo_with(&plivo_token, true, SLICE("https://answer.url/a"), SLICE("CallUUID=x&From=1"),
                                SLICE(PLIVO_POST), SLICE("12346")),
                     -EKEYREJECTED);
    assert_int_equal(plivo_with(&twilio_token, true, SLICE("https://answer.url/a"),
                                SLICE("CallUUID=x&From=1"), SLICE(PLIVO_POST), SLICE("12345")),
                     -EKEYREJECTED);
}

static void plivo__without_a_nonce_nothing_fits(void **state UNUSED)
{
    assert_int_equal(plivo_with(&plivo_token, true, SLICE("https://answer.url/a"), SLICE("CallUUID=x&From=1"),
                                SLICE(PLIVO_POST), SLICE("")),
                     -ENOKEY);
    assert_int_equal(plivo_post("https://answer.url/a", "CallUUID=x&From=1", ""), -ENOKEY);
}

static void assert_basic(const char *authorization, const char *pair, const char *password)
{
    struct slice found_pair, found_password;
    struct arena arena;

    arena_init(&arena, 64 * 1024);
    assert_true(basic_auth_read(&arena, slice_of(authorization), &found_pair, &found_password));
    assert_true(slice_equals(found_pair, pair));
    assert_true(slice_equals(found_password, password));
    arena_release(&arena);
}

static void assert_no_basic(struct slice authorization)
{
    struct slice pair, password;
    struct arena arena;

    arena_init(&arena, 64 * 1024);
    assert_false(basic_auth_read(&arena, authorization, &pair, &password));
    arena_release(&arena);
}

static void basic__gives_user_and_password(void **state UNUSED)
{
    assert_basic("Basic dXNlcjpzZWNyZXQ=", "user:secret", "secret");
    assert_basic("basic  dXNlcjpzZWNyZXQ= ", "user:secret", "secret");
    assert_basic("Basic dXNlcjphOmI=", "user:a:b", "a:b");
    assert_basic("Basic Ong=", ":x", "x");
    assert_basic("Basic eDo=", "x:", "");
    assert_basic("Basic Og==", ":", "");
}

static void basic__anything_else_is_none(void **state UNUSED)
{
    char text[5000];

    assert_no_basic((struct slice){NULL, 0});
    assert_no_basic(SLICE("Basic "));
    assert_no_basic(SLICE("Basic"));
    assert_no_basic(SLICE("Bearer dXNlcjpzZWNyZXQ="));
    assert_no_basic(SLICE("Basic dXNlcjpzZWNyZXQ"));
    assert_no_basic(SLICE("Basic !!!!"));
    assert_no_basic(SLICE("Basic dXNlcg=="));
    assert_no_basic(SLICE("Basic ===="));
    memset(text, 'A', sizeof(text));
    memcpy(text, "Basic ", 6);
    assert_no_basic((struct slice){text, sizeof(text)});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twilio__the_vectors_hold),
        cmocka_unit_test(twilio__the_port_may_be_there_or_not),
        cmocka_unit_test(twilio__any_token_may_have_signed),
        cmocka_unit_test(twilio__no_byte_may_change),
        cmocka_unit_test(twilio__the_hash_of_the_body_must_fit),
        cmocka_unit_test(twilio__what_is_missing_is_told_from_what_is_wrong),
        cmocka_unit_test(nobody_hides_a_nul),
        cmocka_unit_test(a_get_has_no_body),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(plivo__the_vectors_hold),
        cmocka_unit_test(plivo__any_signature_of_the_list_may_fit),
        cmocka_unit_test(plivo__no_byte_may_change),
        cmocka_unit_test(plivo__without_a_nonce_nothing_fits),
        cmocka_unit_test(basic__gives_user_and_password),
        cmocka_unit_test(basic__anything_else_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
