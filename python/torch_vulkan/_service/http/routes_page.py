"""The web page: three files, which ask the same interface as other clients."""

from pathlib import Path

from fastapi import APIRouter, Response

router = APIRouter(include_in_schema=False)
_FOLDER = Path(__file__).parent
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
                               "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                               "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache"}


def _add(path: str, name: str, media_type: str) -> None:
    text = (_FOLDER / name).read_text()

    @router.get(path)
    async def page():
        return Response(text, media_type=media_type, headers=HEADERS)


_add("/", "page.html", "text/html")
_add("/page.css", "page.css", "text/css")
_add("/page.js", "page.js", "text/javascript")
