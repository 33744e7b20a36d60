/* test_router.c - which handler a method and a path belong to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/router.h"

static void handler_a(struct http_request *request UNUSED, void *arg UNUSED)
{
}

static void handler_b(struct http_request *request UNUSED, void *arg UNUSED)
{
}

enum { ROWS_MAX = ROUTER_RESOURCES_MAX + 16 };

struct fixture {
    struct router router;
    struct http_route rows[ROWS_MAX];
    size_t row_count;
    struct arena arena;
    struct router_match match;
};

static void fixture_init(struct fixture *f)
{
    router_init(&f->router);
    f->row_count = 0;
    arena_init(&f->arena, 64 * 1024);
}

static void fixture_release(struct fixture *f)
{
    router_release(&f->router);
    arena_release(&f->arena);
}

static int try_to_add(struct fixture *f, const struct http_route *row)
{
    assert_true(f->row_count < ROWS_MAX);
    f->rows[f->row_count] = *row;
    return router_add(&f->router, &f->rows[f->row_count++], NULL);
}

static int try(struct fixture *f, const char *method, const char *pattern, http_handler_fn handler)
{
    return try_to_add(f, &(struct http_route){method, pattern, handler});
}

static void add(struct fixture *f, const char *method, const char *pattern, http_handler_fn handler)
{
    assert_int_equal(try(f, method, pattern, handler), 0);
}

static int find(struct fixture *f, enum router_method method, const char *path)
{
    return router_find(&f->router, method, slice_of(path), &f->arena, &f->match);
}

static void router__finds_literal_paths_with_and_without_a_slash(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "GET", "/", handler_b);
    add(&f, "POST", "/api/v1/allocate", handler_a);
    assert_int_equal(find(&f, ROUTER_POST, "/api/v1/allocate"), 0);
    assert_ptr_equal(f.match.route->row->handler, handler_a);
    assert_string_equal(f.match.resource->pattern, "/api/v1/allocate");
    assert_int_equal(find(&f, ROUTER_POST, "/api/v1/allocate/"), 0);
    assert_int_equal(find(&f, ROUTER_GET, "/"), 0);
    assert_ptr_equal(f.match.route->row->handler, handler_b);
    assert_int_equal(find(&f, ROUTER_POST, "/api/v1/allocate//"), -ENOENT);
    assert_int_equal(find(&f, ROUTER_POST, "/api/v1/allocat"), -ENOENT);
    assert_int_equal(find(&f, ROUTER_POST, "/api/v1/allocatex"), -ENOENT);
    assert_int_equal(find(&f, ROUTER_POST, "/API/v1/allocate"), -ENOENT);
    assert_int_equal(find(&f, ROUTER_GET, "//"), 0);
    assert_null((find(&f, ROUTER_GET, "/x"), f.match.resource));
    fixture_release(&f);
}

static void router__a_pattern_with_a_slash_at_the_end_is_the_same_path(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "GET", "/a/", handler_a);
    assert_int_equal(try(&f, "GET", "/a", handler_b), -EEXIST);
    assert_int_equal(find(&f, ROUTER_GET, "/a"), 0);
    fixture_release(&f);
}

static void router__decodes_parameters(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "POST", "/pod/{name}/part/{no}", handler_a);
    assert_int_equal(find(&f, ROUTER_POST, "/pod/a%20b%2Fc+d/part/7/"), 0);
    assert_int_equal(f.match.param_count, 2);
    assert_true(slice_equals(f.match.params[0].name, "name"));
    assert_string_equal(f.match.params[0].value, "a b/c+d");
    assert_string_equal(f.match.params[1].value, "7");
    assert_int_equal(find(&f, ROUTER_POST, "/pod/%zz%4/part/x"), 0);
    assert_string_equal(f.match.params[0].value, "%zz%4");
    assert_int_equal(find(&f, ROUTER_POST, "/pod//part/7"), -ENOENT);
    assert_int_equal(find(&f, ROUTER_POST, "/pod/x/part/"), -ENOENT);
    assert_int_equal(find(&f, ROUTER_POST, "/pod/x/part/7/more"), -ENOENT);
    assert_int_equal(find(&f, ROUTER_POST, "/pod/x%00y/part/7"), -EINVAL);
    fixture_release(&f);
}

static void router__rest_takes_everything_that_follows(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "GET", "/ws/{pod}/{rest...}", handler_a);
    assert_int_equal(find(&f, ROUTER_GET, "/ws/p1/a/b/c%20d/"), 0);
    assert_string_equal(f.match.params[0].value, "p1");
    assert_string_equal(f.match.params[1].value, "a/b/c d/");
    assert_int_equal(find(&f, ROUTER_GET, "/ws/p1/"), 0);
    assert_string_equal(f.match.params[1].value, "");
    assert_int_equal(find(&f, ROUTER_GET, "/ws/p1"), -ENOENT);
    fixture_release(&f);
}

static void router__literal_paths_come_before_patterns(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "GET", "/pods/{name}", handler_a);
    add(&f, "GET", "/pods/all", handler_b);
    assert_int_equal(find(&f, ROUTER_GET, "/pods/all"), 0);
    assert_ptr_equal(f.match.route->row->handler, handler_b);
    assert_int_equal(f.match.param_count, 0);
    assert_int_equal(find(&f, ROUTER_GET, "/pods/one"), 0);
    assert_ptr_equal(f.match.route->row->handler, handler_a);
    fixture_release(&f);
}

static void router__a_wrong_method_names_the_right_ones(void **state UNUSED)
{
    struct fixture f;
    char allow[ROUTER_ALLOW_MAX];

    fixture_init(&f);
    add(&f, "PUT", "/tiers", handler_a);
    add(&f, "GET", "/tiers", handler_a);
    add(&f, "DELETE", "/pod/{name}", handler_a);
    assert_int_equal(find(&f, ROUTER_POST, "/tiers/"), -ENOTSUP);
    assert_string_equal(f.match.resource->pattern, "/tiers");
    router_format_allow(f.match.allowed, allow);
    assert_string_equal(allow, "GET, HEAD, PUT");
    assert_int_equal(find(&f, ROUTER_OTHER, "/pod/x"), -ENOTSUP);
    router_format_allow(f.match.allowed, allow);
    assert_string_equal(allow, "DELETE");
    assert_int_equal(find(&f, ROUTER_HEAD, "/pod/x"), -ENOTSUP);
    router_format_allow(~0U, allow);
    assert_string_equal(allow, "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
    fixture_release(&f);
}

static void router__two_patterns_of_one_shape_share_the_path(void **state UNUSED)
{
    struct fixture f;
    char allow[ROUTER_ALLOW_MAX];

    fixture_init(&f);
    add(&f, "GET", "/pod/{name}", handler_a);
    add(&f, "DELETE", "/pod/{id}", handler_b);
    assert_int_equal(find(&f, ROUTER_DELETE, "/pod/x"), 0);
    assert_ptr_equal(f.match.route->row->handler, handler_b);
    assert_int_equal(find(&f, ROUTER_PUT, "/pod/x"), -ENOTSUP);
    router_format_allow(f.match.allowed, allow);
    assert_string_equal(allow, "GET, HEAD, DELETE");
    fixture_release(&f);
}

static void router__head_is_answered_by_get(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "GET", "/a", handler_a);
    assert_int_equal(find(&f, ROUTER_HEAD, "/a"), 0);
    assert_ptr_equal(f.match.route->row->handler, handler_a);
    fixture_release(&f);
}

static void router__refuses_what_cannot_be_routed(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    assert_int_equal(try(&f, "BREW", "/a", handler_a), -EINVAL);
    assert_int_equal(try(&f, "GET", "a", handler_a), -EINVAL);
    assert_int_equal(try(&f, "GET", "/{}", handler_a), -EINVAL);
    assert_int_equal(try(&f, "GET", "/{a", handler_a), -EINVAL);
    assert_int_equal(try(&f, "GET", "/{a...}/b", handler_a), -EINVAL);
    assert_int_equal(try(&f, "GET", "/{a}/{b}/{c}/{d}/{e}", handler_a), -EINVAL);
    assert_int_equal(try(&f, "GET", "/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h", handler_a), -EINVAL);
    add(&f, "GET", "/a", handler_a);
    assert_int_equal(try(&f, "GET", "/a", handler_b), -EEXIST);
    assert_int_equal(find(&f, ROUTER_GET, "/{a"), -ENOENT);
    fixture_release(&f);
}

static void router__has_a_limit(void **state UNUSED)
{
    static char paths[ROUTER_RESOURCES_MAX + 1][16];
    struct fixture f;

    fixture_init(&f);
    for (unsigned i = 0; i < ROUTER_RESOURCES_MAX; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "/p%u", i);
        add(&f, "GET", paths[i], handler_a);
    }
    assert_int_equal(try(&f, "GET", "/one-more", handler_a), -ENOSPC);
    assert_int_equal(find(&f, ROUTER_GET, "/p255"), 0);
    fixture_release(&f);
}

static void router__says_when_memory_is_out(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    arena_init(&f.arena, 8);
    add(&f, "GET", "/pod/{name}", handler_a);
    assert_int_equal(find(&f, ROUTER_GET, "/pod/a-longer-name"), -ENOMEM);
    fixture_release(&f);
}

static void router__gives_the_row_of_the_method_or_else_the_first_of_the_path(void **state UNUSED)
{
    struct fixture f;

    fixture_init(&f);
    add(&f, "PUT", "/a/{b}", handler_a);
    add(&f, "GET", "/a/{b}", handler_b);
    assert_int_equal(find(&f, ROUTER_HEAD, "/a/1"), 0);
    assert_ptr_equal(router_match_row(&f.match), &f.rows[1]);
    assert_int_equal(find(&f, ROUTER_DELETE, "/a/1"), -ENOTSUP);
    assert_ptr_equal(router_match_row(&f.match), &f.rows[0]);
    assert_int_equal(find(&f, ROUTER_GET, "/b"), -ENOENT);
    assert_null(router_match_row(&f.match));
    fixture_release(&f);
}

static void router__all_rows_of_a_path_are_authenticated_in_the_same_way(void **state UNUSED)
{
    struct http_route open = {"GET", "/a", handler_a, ROUTE_OPEN};
    struct fixture f;

    fixture_init(&f);
    assert_int_equal(try_to_add(&f, &open), 0);
    assert_int_equal(try(&f, "POST", "/a", handler_a), -EINVAL);
    open.method = "POST";
    assert_int_equal(try_to_add(&f, &open), 0);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(router__finds_literal_paths_with_and_without_a_slash),
        cmocka_unit_test(router__a_pattern_with_a_slash_at_the_end_is_the_same_path),
        cmocka_unit_test(router__decodes_parameters),
        cmocka_unit_test(router__rest_takes_everything_that_follows),
        cmocka_unit_test(router__literal_paths_come_before_patterns),
        cmocka_unit_test(router__a_wrong_method_names_the_right_ones),
        cmocka_unit_test(router__two_patterns_of_one_shape_share_the_path),
        cmocka_unit_test(router__head_is_answered_by_get),
        cmocka_unit_test(router__refuses_what_cannot_be_routed),
        cmocka_unit_test(router__has_a_limit),
        cmocka_unit_test(router__says_when_memory_is_out),
        cmocka_unit_test(router__gives_the_row_of_the_method_or_else_the_first_of_the_path),
        cmocka_unit_test(router__all_rows_of_a_path_are_authenticated_in_the_same_way),
    };

    return cmocka_run_group_tests_name("router", tests, NULL, NULL);
}
