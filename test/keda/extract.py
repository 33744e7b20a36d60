#!/usr/bin/python3
"""extract.py METRICS_API_SCALER.GO - a program of KEDA's own functions that read an answer, without the rest of their package.

The package has the libraries of every cloud. The functions need few. The program reads an answer from stdin:
judge json|prometheus VALUE_LOCATION prints the value, or the error on stderr with the exit status 1.
"""
import re
import sys

HEAD = """package main

import (
\t"fmt"
\t"io"
\t"os"
\t"strings"

\t"github.com/prometheus/common/expfmt"
\t"github.com/prometheus/common/model"
\t"github.com/prometheus/prometheus/promql/parser"
\t"github.com/tidwall/gjson"
\t"k8s.io/apimachinery/pkg/api/resource"
)

var promQLParser parser.Parser = parser.NewParser(parser.Options{})

const valueLocationWrongErrorMsg = "valueLocation %q must point to a number, got %s"
"""

MAIN = """
func main() {
\tread := getValueFromJSONResponse
\tif os.Args[1] == "prometheus" {
\t\tread = getValueFromPrometheusResponse
\t}
\tbody, err := io.ReadAll(os.Stdin)
\tvalue := 0.0
\tif err == nil {
\t\tvalue, err = read(body, os.Args[2])
\t}
\tif err != nil {
\t\tfmt.Fprintln(os.Stderr, err)
\t\tos.Exit(1)
\t}
\tfmt.Println(value)
}
"""


def function(source, name):
    found = re.search(rf"^func {name}\(.*?^}}\n", source, re.M | re.S)
    if not found:
        sys.exit(f"KEDA has no function {name} any more")
    return found.group(0)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        source = file.read()
    names = ("getValueFromPrometheusResponse", "getValueFromJSONResponse")
    print("\n".join([HEAD, *(function(source, name) for name in names), MAIN]))


if __name__ == "__main__":
    main()
