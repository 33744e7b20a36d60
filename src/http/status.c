/*
 * status.c - the table of HTTP statuses.
 */
#include "http/status.h"

static const struct http_status statuses[] = {
    {200, "OK", ""},
    {201, "Created", ""},
    {202, "Accepted", ""},
    {204, "No Content", ""},
    {301, "Moved Permanently", ""},
    {302, "Found", ""},
    {303, "See Other", ""},
    {304, "Not Modified", ""},
    {307, "Temporary Redirect", ""},
    {308, "Permanent Redirect", ""},
    {400, "Bad Request", "bad_request"},
    {401, "Unauthorized", "unauthorized"},
    {403, "Forbidden", "forbidden"},
    {404, "Not Found", "not_found"},
    {405, "Method Not Allowed", "method_not_allowed"},
    {408, "Request Timeout", "timeout"},
    {409, "Conflict", "conflict"},
    {410, "Gone", "gone"},
    {413, "Content Too Large", "too_large"},
    {417, "Expectation Failed", "expectation_failed"},
    {426, "Upgrade Required", "upgrade_required"},
    {429, "Too Many Requests", "rate_limited"},
    {431, "Request Header Fields Too Large", "header_too_large"},
    {500, "Internal Server Error", "internal"},
    {501, "Not Implemented", "not_implemented"},
    {502, "Bad Gateway", "bad_gateway"},
    {503, "Service Unavailable", "unavailable"},
    {504, "Gateway Timeout", "gateway_timeout"},
    {505, "HTTP Version Not Supported", "version_not_supported"},
};

const struct http_status *http_status_of(int status)
{
    static const struct http_status other = {0, "Unknown", "error"};

    assert(status >= 200 && status <= 599);
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        if (statuses[i].status == status)
            return &statuses[i];
    return &other;
}
