"""The OpenAPI document of the router, for tests: its operations, and whether an answer is one that it describes."""

import copy
import json
import re
import subprocess

import jsonschema
import routes

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
FORMATS = jsonschema.FormatChecker(formats=())


@FORMATS.checks("date-time")
def is_time(value):
    return not isinstance(value, str) or TIME.fullmatch(value) is not None


def closed(schema):
    """The same schema, but without members that it does not name."""
    schema = copy.deepcopy(schema)
    for one in schema.values():
        if "properties" in one:
            one["additionalProperties"] = False
    return schema


class Operation:
    """A method of a path."""

    def __init__(self, document, method, path, value):
        self.document = document
        self.method = method
        self.path = path
        self.value = value

    def __repr__(self):
        return f"{self.method} {self.path}"

    @property
    def key(self):
        return self.method, self.path

    @property
    def statuses(self):
        return {int(status) for status in self.value["responses"]}

    @property
    def roles(self):
        return {role for one in self.value["security"] for role in one.get("key", ())}

    @property
    def is_webhook(self):
        return self.value["tags"] == ["Providers"]

    def strict_in_query(self):
        """Parameters of the query that are a number, or one of some words."""
        for one in self.value["parameters"]:
            if one["in"] == "query" and (one["schema"].get("type") == "integer" or "enum" in one["schema"]):
                yield one["name"]

    def content(self):
        """{media type: schema} of the body."""
        return {media: one["schema"] for media, one in self.value.get("requestBody", {}).get("content", {}).items()}

    def takes_json(self):
        return not self.is_webhook and "application/json" in self.content()

    def response(self, status):
        response = self.value["responses"][str(status)]
        if "$ref" in response:
            response = self.document.value["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
        return response

    def fits(self, answer, text=None):
        """Fails unless the answer is one that the document describes."""
        text = answer.text if text is None else text
        assert answer.status_code in self.statuses, (self, answer.status_code, text)
        response = self.response(answer.status_code)
        for name in response.get("headers", ()):
            assert name in answer.headers, (self, answer.status_code, name)
        if "content" not in response:
            assert text == "" and "Content-Type" not in answer.headers, (self, answer.status_code)
            return
        media = answer.headers["Content-Type"].split(";")[0]
        assert list(response["content"]) in ([media], ["*/*"]), (self, answer.status_code, media)
        if media != "application/json":
            return
        value = json.loads(text)
        self.document.check(response["content"][media]["schema"], value, self)
        if "code" in value:
            assert f"`{value['code']}`" in response["description"], (self, answer.status_code, value)


class Document:
    """What `smart-router routes --openapi` prints."""

    def __init__(self):
        done = subprocess.run([str(routes.BINARY), "routes", "--openapi"], env={}, capture_output=True, timeout=60, check=True)
        self.value = json.loads(done.stdout)
        self.closed = closed(self.value["components"]["schemas"])
        self.operations = {
            (method.upper(), path): Operation(self, method.upper(), path, value)
            for path, methods in self.value["paths"].items()
            for method, value in methods.items()
        }

    def check(self, schema, value, where):
        """Fails unless the value has the schema, and has no member that the schema does not name."""
        whole = {**schema, "components": {"schemas": self.closed}}
        errors = list(jsonschema.Draft202012Validator(whole, format_checker=FORMATS).iter_errors(value))
        assert not errors, (where, [error.message for error in errors], "see src/api/reference_objects.c")

    def with_status(self, status):
        return [operation for operation in self.operations.values() if status in operation.statuses]
