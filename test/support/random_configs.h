/*
 * random_configs.h - tiers and merchants for tests that choose commands at random: valid, odd and
 * invalid ones.
 */
#ifndef TEST_SUPPORT_RANDOM_CONFIGS_H
#define TEST_SUPPORT_RANDOM_CONFIGS_H

static const char *const random_tiers[] = {
    "{}",
    "{\"gold\":{\"buffer\":2,\"max\":4},\"standard\":{\"target\":3,\"buffer\":1},"
    "\"basic\":{\"type\":\"shared\",\"buffer\":3,\"min\":1,\"max_concurrent\":4}}",
    "{\"tiers\":{\"standard\":{\"min\":2},\"basic\":{\"type\":\"shared\",\"target\":5,\"max\":2},"
    "\"merchant:m1\":{\"buffer\":1}},\"default_chain\":[\"standard\",\"basic\"]}",
    "{\"gold\":2,\"standard\":3,\"basic\":{\"type\":\"shared\",\"target\":2,\"max_concurrent\":4}}",
    "{\"standard\":{\"type\":\"shared\",\"max_concurrent\":2,\"target\":4}}",
    "{\"tiers\":{\"standard\":2,\"vip\":{\"target\":2,\"reserved\":true},\"merchant:m1\":{\"target\":2}},"
    "\"default_chain\":[\"standard\"]}",
    "{\"basic\":{\"type\":\"exclusive\",\"target\":3},\"gold\":{\"type\":\"shared\",\"max_concurrent\":2,"
    "\"target\":2}}",
    "{\"gold\":{\"target\":3,\"reserved\":true},\"standard\":1,\"basic\":{\"type\":\"shared\",\"target\":"
    "3,"
    "\"max_concurrent\":2}}",
    "{\"a\":1,\"b\":{\"type\":\"shared\",\"target\":3,\"max_concurrent\":1}}",
    "{\"tiers\":{\"standard\":2,\"m1\":{\"target\":2},\"m2\":1},\"default_chain\":[\"standard\"]}",
    "{\"tiers\":{\"gold\":1,\"basic\":{\"type\":\"shared\",\"target\":1,\"max_concurrent\":0},\"merchant:"
    "gold\":2,"
    "\"vip\":{\"type\":\"shared\",\"target\":1,\"max_concurrent\":2}},\"default_chain\":[\"basic\","
    "\"gold\"]}",
    "{\"tiers\":{\"b\":2,\"standard\":1,\"merchant:m1\":1,\"x@y:z\":1},\"default_chain\":[\"b\"]}",
    "{\"tiers\":{\"a\":1,\"m1\":1,\"merchant:m1\":1},\"default_chain\":[\"a\"]}",
    "{\"tiers\":{\"a\":1},\"default_chain\":[\"a\",\"c\"]}",
    "{\"gold\":{\"targt\":1}}",
    "{\"a\":-1}",
    "nonsense",
};

static const char *const random_merchants[] = {
    "{\"tier\":\"gold\"}",
    "{\"tier\":\"standard\"}",
    "{\"pool\":\"m1\"}",
    "{\"fallback\":[\"basic\",\"a\"]}",
    "{\"tier\":\"vip\"}",
    "{}",
    "{\"pool\":\"nobody\"}",
    "{\"tier\":\"b\"}",
    "{\"fallback\":[\"none\"]}",
    "{\"pool\":\"m1\",\"fallback\":[\"none\"]}",
    "{\"pool\":\"nobody\",\"fallback\":[\"none\",\"neither\"]}",
    "{\"tier\":\"m1\"}",
    "{\"tier\":\"merchant:m2\",\"fallback\":[]}",
    "{\"fallback\":[\"m2\",\"x@y:z\",\"merchant:gold\",\"gold\"]}",
    "{\"tier\":\"a b\"}",
    "{\"fallback\":[\"merchant:\"]}",
    "{\"tier\":7}",
    "{\"tier\":\"\",\"pool\":null,\"fallback\":[\"merchant:m1\",\"gold\",\"gold\"]}",
    "{\"pool\":\"m1\",\"tier\":\"dedicated\"}",
    "{\"priority\":9,\"hold_seconds\":120}",
    "{\"tier\":\"standard\",\"priority\":3,\"hold_seconds\":20,\"max_waiting\":2}",
    "{\"hold_seconds\":0,\"priority\":1}",
    "{\"fallback\":[\"gold\",\"basic\"],\"hold_seconds\":30,\"max_waiting\":0}",
    "{\"pool\":\"m1\",\"hold_seconds\":45,\"max_waiting\":3}",
    "[]",
    "{\"priority\":3}",
    "{\"priority\":9,\"tier\":\"standard\"}",
    "{\"hold_seconds\":20,\"max_waiting\":2}",
    "{\"hold_seconds\":0,\"tier\":\"gold\"}",
    "{\"hold_seconds\":300,\"priority\":1,\"fallback\":[\"standard\",\"basic\"]}",
    "{\"max_waiting\":1}",
    "{\"max_waiting\":0,\"pool\":\"m1\"}",
    "{\"priority\":10}",
};

#endif
