/*
 * test_reference.c - the API reference covers the routing table: every route, parameter and object
 * has its text, and no text is left over.
 *
 * A failure names the missing row and the file to write it into.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/openapi.h"
#include "api/reference.h"

#define TABLE "src/api/reference_routes.c"
#define OBJECTS "src/api/reference_objects.c"

static bool is_text(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    return len > 0 && text[0] != ' ' && text[len - 1] != ' ' && !strstr(text, "  ");
}

static bool is_sentence(const char *text)
{
    return is_text(text) && strchr(".`", text[strlen(text) - 1]);
}

static void rows__have_an_entry(void **state UNUSED)
{
    for (size_t i = 0; i < api_routes_count; i++) {
        const struct http_route *row = &api_routes[i];
        const struct reference_entry *entry = reference_entry_of(row->handler);

        if (!entry)
            fail_msg("%s %s: its handler has no entry in reference_entries, " TABLE, row->method,
                     row->pattern);
        else if (row->auth == ROUTE_BY_TICKET ||
                 (row->auth == ROUTE_BY_SIGNATURE) != (entry->provider != NULL))
            fail_msg("%s %s: a row by signature, and no other, has a provider in " TABLE, row->method,
                     row->pattern);
    }
}

static void rows__have_a_text_for_each_parameter(void **state UNUSED)
{
    for (size_t i = 0; i < api_routes_count; i++) {
        const struct http_route *row = &api_routes[i];
        const struct reference_entry *entry = reference_entry_of(row->handler);

        for (const struct route_param *param = row->params; param && param->name; param++) {
            const struct reference_param *text = reference_param_of(row->handler, param->name);

            if (!text || !is_sentence(text->about))
                fail_msg("%s %s: its parameter %s has no sentence in reference_params, " TABLE, row->method,
                         row->pattern, param->name);
            if (param->of && !reference_type_of_name(param->of) && !strchr(param->of, '|'))
                fail_msg("%s %s: reference_type_of_name does not know the names of a %s, " OBJECTS,
                         row->method, row->pattern, param->of);
            if (param->kind == ROUTE_DOCUMENT && !(entry && entry->document))
                fail_msg("%s %s: its entry does not say what its body is, " TABLE, row->method, row->pattern);
        }
    }
}

static bool is_routed(http_handler_fn handler, const char *param)
{
    for (size_t i = 0; i < api_routes_count; i++) {
        if (handler && api_routes[i].handler != handler)
            continue;
        if (!param || http_route_has_param(&api_routes[i], param))
            return true;
    }
    return false;
}

/* Every name in a type must be an object: the names are what begins with a capital letter. */
static void check_type(const char *type, const char *where)
{
    if (!is_text(type))
        fail_msg("%s: no type", where);
    while (*type) {
        size_t len = strspn(type, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

        if (len > 0 && *type >= 'A' && *type <= 'Z' && !reference_object_of(type, len))
            fail_msg("%s: %.*s is not in reference_objects, " OBJECTS, where, (int)len, type);
        type += len ? len : 1;
    }
}

static void check_answers(const struct reference_entry *entry)
{
    int before = 0;

    assert_in_range(entry->answers[0].status, 200, 299);
    for (size_t i = 0; i < ARRAY_LEN(entry->answers) && entry->answers[i].status; i++) {
        const struct reference_answer *answer = &entry->answers[i];

        if (answer->status <= before || !is_sentence(answer->about))
            fail_msg("%s: its answer %d is not in order, or has no sentence, " TABLE, entry->name,
                     answer->status);
        if (answer->type || answer->status < 300)
            check_type(answer->type, entry->name);
        before = answer->status;
    }
}

static void entries__are_complete_and_used(void **state UNUSED)
{
    for (size_t i = 0; i < reference_entries_count; i++) {
        const struct reference_entry *entry = &reference_entries[i];

        if (!is_routed(entry->handler, NULL))
            fail_msg("%s: no route has its handler, " TABLE, entry->name);
        if (!is_sentence(entry->about))
            fail_msg("%s: no sentence says what it does, " TABLE, entry->name);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(entry->name, reference_entries[j].name);
            assert_true(entry->handler != reference_entries[j].handler);
        }
        if (entry->document)
            check_type(entry->document, entry->name);
        check_answers(entry);
    }
}

static void params__are_used(void **state UNUSED)
{
    for (size_t i = 0; i < reference_params_count; i++) {
        const struct reference_param *param = &reference_params[i];

        if (!is_routed(param->handler, param->name))
            fail_msg("%s: no route has this parameter, " TABLE, param->name);
    }
}

static void objects__have_texts_and_types(void **state UNUSED)
{
    for (size_t i = 0; i < reference_objects_count; i++) {
        const struct reference_object *object = &reference_objects[i];

        if (!is_sentence(object->about) || !object->members == !object->type)
            fail_msg("%s: no sentence, or not one of members and type, " OBJECTS, object->name);
        if (object->type)
            check_type(object->type, object->name);
        for (const struct reference_member *member = object->members; member && member->name; member++) {
            if (!is_text(member->about))
                fail_msg("%s: no text for %s, " OBJECTS, object->name, member->name);
            check_type(member->type, object->name);
        }
    }
}

static void document__is_json_and_uses_every_object(void **state UNUSED)
{
    struct strbuf buf;
    char text[80];

    strbuf_init(&buf, NULL, OPENAPI_SIZE_MAX);
    api_write_openapi(&buf);
    assert_false(strbuf_failed(&buf));
    assert_true(json_is_valid(strbuf_slice(&buf)));
    for (size_t i = 0; i < reference_objects_count; i++) {
        snprintf(text, sizeof(text), "\"#/components/schemas/%s\"", reference_objects[i].name);
        if (!strstr(buf.data, text))
            fail_msg("%s: nothing refers to it, " OBJECTS, reference_objects[i].name);
    }
    for (size_t i = 0; i < api_routes_count; i++) {
        snprintf(text, sizeof(text), "\"%s\":{", api_routes[i].pattern);
        assert_non_null(strstr(buf.data, text));
    }
    strbuf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows__have_an_entry),
        cmocka_unit_test(rows__have_a_text_for_each_parameter),
        cmocka_unit_test(entries__are_complete_and_used),
        cmocka_unit_test(params__are_used),
        cmocka_unit_test(objects__have_texts_and_types),
        cmocka_unit_test(document__is_json_and_uses_every_object),
    };

    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
