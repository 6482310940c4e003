"""A page of what the service takes and answers: /openapi.json for people. FastAPI's own pages load
scripts from elsewhere, which here could read the key of ours; this one has none."""

import html
import json

from fastapi import APIRouter, Request, Response

from .routes_page import HEADERS

router = APIRouter(include_in_schema=False)
_BOUNDS = {"minimum": "≥", "maximum": "≤", "exclusiveMaximum": "<", "pattern": "matching",
           "minLength": "length ≥", "maxLength": "length ≤", "minItems": "number ≥",
           "maxItems": "number ≤", "default": "else"}
_TOP = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Compile service: interface</title>
<link rel="stylesheet" href="page.css">
<header><h1>Compile service: interface</h1><nav><a href="./">Jobs</a>
<a href="openapi.json">openapi.json</a></nav></header>
<main>
<p class="note">Send <code>Authorization: Bearer KEY</code> with all but /v1/health. What is refused
has a status of 400 or more and the answer <a href="#Refusal">Refusal</a>.</p>
"""


@router.get("/docs")
def reference(request: Request):
    made = request.app.openapi()
    parts = [_TOP, *(_operation(method, path, given) for path, of_path in made["paths"].items()
                     for method, given in of_path.items()),
             "<h2>Objects</h2>", *(_object(name, schema) for name, schema in sorted(
                 made["components"]["schemas"].items()))]
    return Response("\n".join([*parts, "</main>"]), media_type="text/html", headers=HEADERS)


def _operation(method: str, path: str, given: dict) -> str:
    rows = [(one["name"], _type(one["schema"]), "in the path" if one["in"] == "path" else
             "wanted" if one["required"] else "optional") for one in given.get("parameters", ())]
    rows += [("the body", *_content(given["requestBody"]))] if "requestBody" in given else []
    rows += [(status, *_content(answer)) for status, answer in given["responses"].items()
             if "content" in answer and "X" not in status]
    title = f"<h3>{method.upper()} <code>{html.escape(path)}</code></h3>"
    return f"{title}<p>{html.escape(given.get('description', ''))}</p>{_table(rows)}"


def _content(given: dict) -> tuple[str, str]:
    (media_type, content), = given["content"].items()
    return _type(content["schema"]), html.escape(media_type)


def _object(name: str, schema: dict) -> str:
    wanted = schema.get("required", ())
    rows = [(field, _type(of), "" if field in wanted else "optional")
            for field, of in schema.get("properties", {}).items()]
    rows = rows or [("", _type(schema), "")]
    text = f"<p>{html.escape(schema.get('description', ''))}</p>"
    return f"<h3 id='{html.escape(name)}'>{html.escape(name)}</h3>{text}{_table(rows)}"


def _table(rows: list[tuple]) -> str:
    lines = "".join(f"<tr><th>{html.escape(str(name))}<td>{kind}<td>{more}"
                    for name, kind, more in rows)
    return f"<table><tbody>{lines}</tbody></table>" if rows else ""


def _type(schema: dict) -> str:
    """A schema in a few words of HTML."""
    if "$ref" in schema:
        name = html.escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"<code>{html.escape(json.dumps(one))}</code>" for one in schema["enum"])
    bounds = [f"{word} {schema[name]}" for name, word in _BOUNDS.items() if name in schema]
    if schema.get("type") == "array" and "items" in schema:
        return ", ".join([f"list of {_type(schema['items'])}", *map(html.escape, bounds)])
    kind = schema.get("format") or schema.get("type", "anything")
    return html.escape(", ".join([kind, *bounds]))
