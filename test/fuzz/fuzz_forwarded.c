/*
 * fuzz_forwarded.c - what proxies say of their clients, and which of them count.
 *
 * An input is 'T' or 'N' for a peer that is trusted or not, a list of trusted proxies, LF, and the bytes of
 * requests, which go through the real server. Who is not trusted has no influence at all; who is, can name
 * only what is an address and what could be a host. Addresses are read as they are written.
 */
#include <stdlib.h>

#include "base/log.h"
#include "client.h"
#include "fuzz.h"
#include "http/forwarded.h"

static struct {
    uv_loop_t loop;
    struct http_server *server;
    struct trusted *trusted;
    bool is_trusted;
} world;

#define PEER "192.0.2.7"

static void check_address(struct slice text)
{
    struct address address, again;
    char written[ADDRESS_TEXT_SIZE];

    if (address_parse(text, &address) < 0)
        return;
    address_format(&address, written);
    assert(address_parse(slice_of(written), &again) == 0);
    assert(memcmp(again.bytes, address.bytes, sizeof(address.bytes)) == 0);
    assert(again.is_ipv4 == address.is_ipv4);
}

static void check_block(struct slice text)
{
    struct address_block block;

    if (address_block_parse(text, &block) < 0)
        return;
    assert(block.bits <= (block.address.is_ipv4 ? 32 : 128));
    assert(address_block_has(&block, &block.address));
    /* One bit more or less than the block: who is outside stays outside. */
    if (block.bits > 0) {
        struct address outside = block.address;

        outside.bytes[(block.bits - 1) / 8] ^= (uint8_t)(0x80 >> (block.bits - 1) % 8);
        assert(!address_block_has(&block, &outside));
    }
    if (block.bits < (block.address.is_ipv4 ? 32 : 128)) {
        struct address inside = block.address;

        inside.bytes[block.bits / 8] ^= (uint8_t)(0x80 >> block.bits % 8);
        assert(address_block_has(&block, &inside));
    }
}

static void handle(struct http_request *request, void *arg UNUSED)
{
    struct slice host = http_request_header(request, "host");
    struct forwarded forwarded;
    struct address client;

    forwarded_read(world.trusted, request, &forwarded);
    assert(address_parse(slice_of(forwarded.client), &client) == 0);
    /* Whoever named it: nothing that could be taken for more than a host. */
    assert(forwarded.host.len <= FORWARDED_HOST_MAX);
    for (size_t i = 0; i < forwarded.host.len; i++)
        assert(forwarded.host.data[i] > ' ' && !strchr("/?#@\"\\,;<>&%\x7f", forwarded.host.data[i]));
    if (!world.is_trusted) {
        assert(strcmp(forwarded.client, PEER) == 0);
        assert(!forwarded.is_https);
        assert(forwarded.host.len == 0 ||
               (forwarded.host.data == host.data && forwarded.host.len == host.len));
    }
    http_respond(request, 200, "text/plain", SLICE("seen"));
}

static void world_init(void)
{
    static const struct http_route route = {"GET", "/", handle};
    int rc;

    client_server_init(&world.loop, &world.server);
    rc = http_server_route(world.server, &route, NULL);
    assert(rc == 0);
}

/* The list as it was given, and the peer in it or not. */
static void read_trusted(struct slice list)
{
    struct input input = {(const uint8_t *)list.data, list.len};
    struct strbuf buf;
    struct address peer;
    char error[256] = "";
    int rc;

    while (input.size > 0) {
        struct slice entry = input_until(&input, ',');

        check_address(entry);
        check_block(entry);
    }
    strbuf_init(&buf, NULL, 64 * 1024);
    if (world.is_trusted)
        strbuf_append_str(&buf, PEER ",");
    strbuf_append(&buf, list.data, list.len);
    if (buf.len == 0)
        strbuf_append_char(&buf, ' ');
    rc = trusted_new(buf.data, &world.trusted, error, sizeof(error));
    assert(rc == 0 || (rc == -EINVAL && error[0] && !world.trusted));
    strbuf_release(&buf);
    rc = address_parse(SLICE(PEER), &peer);
    assert(rc == 0);
    world.is_trusted = trusted_has(world.trusted, &peer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct client client = {.peer = PEER};
    struct strbuf buf;

    if (!world.server)
        world_init();
    client.loop = &world.loop;
    client.server = world.server;
    world.is_trusted = input_byte(&input) == 'T';
    read_trusted(input_until(&input, '\n'));
    strbuf_init(&buf, NULL, CLIENT_ANSWER_MAX);
    client_talk(&client, input_rest(&input), CLIENT_WHOLE, &buf);
    strbuf_release(&buf);
    world.trusted = trusted_free(world.trusted);
    log_flush();
    return 0;
}
