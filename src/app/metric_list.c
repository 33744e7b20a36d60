/*
 * metric_list.c - asks every module for its families of metrics.
 *
 * test_monitoring.py compares the list with /metrics of running routers.
 */
#include "app/metric_list.h"

#include "api/api.h"
#include "app/lost_calls.h"
#include "app/reload.h"
#include "gateway/gateway.h"
#include "manager/manager.h"
#include "tls/tls.h"

int metric_list_fill(struct metrics *metrics)
{
    int err = api_list_metrics(metrics);

    if (err == 0)
        err = gateway_list_metrics(metrics);
    if (err == 0)
        err = manager_list_metrics(metrics);
    if (err == 0)
        err = tls_server_list_metrics(metrics);
    if (err == 0 && (!lost_calls_family(metrics) || !reload_family(metrics)))
        err = -ENOMEM;
    return err;
}
