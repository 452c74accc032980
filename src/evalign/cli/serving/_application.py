"""The web application: its routes, its limits, and its answers in words."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import evalign
from evalign._files import MAX_JSON, read_file
from evalign.cli.serving._batches import Batcher, Predictions
from evalign.cli.serving._bodies import CSV, JSON, Intake, RefusedError, choose_kind, parse_body
from evalign.cli.serving._page import render_page
from evalign.reports import Report, render_card
from evalign.tables import TableModel

logger = logging.getLogger("evalign.serve")

#: What every answer says to browsers; nothing of it may be embedded, sniffed, stored or run.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
#: The bodies of all requests in work are together at most this many times as large as the largest one.
MAX_BODIES = 8


@dataclass(frozen=True)
class Limits:
    """What a request may cost: bytes, rows, and seconds until it is answered."""

    max_bytes: int = 10 << 20
    max_rows: int = 10_000
    seconds: float = 30.0


@dataclass(frozen=True)
class Application:
    """Builds the web application in each worker process, of which every one loads the model."""

    folder: Path
    verify: Path | None
    limits: Limits

    def __call__(self) -> FastAPI:
        """Load the model and build the application."""
        return build_application(TableModel.load(self.folder, self.verify), self.limits, self.folder)


def build_application(model: TableModel, limits: Limits, folder: Path | None = None) -> FastAPI:
    """Build the application of a model; the card is read from its folder."""
    service = Service(model, limits)
    app = FastAPI(
        title="evalign",
        version=evalign.__version__,
        description=f"Predicts {model.facts['target']}: a classifier for {model.facts['metric']}.",
        lifespan=service.run,
        docs_url=None,  # these pages would fetch their scripts from elsewhere
        redoc_url=None,
    )
    facts = describe_model(model, limits, _render_card(model, folder))
    page = render_page(model, limits.max_rows)
    bodies = _describe_predict(model)

    @app.post("/predict", openapi_extra=bodies["request"], responses=bodies["responses"])
    async def predict(
        request: Request,
        threshold: Annotated[
            float | None, Query(ge=0, le=1, description="Of two classes, predict the second from here on.")
        ] = None,
    ) -> Response:
        """Predict the class of each row."""
        return await service.answer(request, threshold)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the server answers."""
        return {"status": "ok"}

    @app.get("/model")
    async def describe() -> dict[str, Any]:
        """What the model predicts, from which columns, and how it decides."""
        return facts

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def show_page() -> HTMLResponse:
        return HTMLResponse(page.html, headers={"Content-Security-Policy": page.policy})

    _add_handlers(app)
    return app


def _add_handlers(app: FastAPI) -> None:
    @app.exception_handler(RefusedError)
    async def _refuse(_: Request, refusal: RefusedError) -> Response:
        headers = {"Retry-After": "1"} if refusal.status == 503 else None
        return JSONResponse({"detail": refusal.reason}, refusal.status, headers)

    @app.exception_handler(RequestValidationError)
    async def _explain(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        reason = f"Expected `{first['loc'][-1]}` in [0, 1], but got {str(first.get('input'))[:60]}."
        return JSONResponse({"detail": reason}, 422)

    app.add_middleware(SecureHeaders)


@dataclass(frozen=True)
class SecureHeaders:
    """Adds `HEADERS` to every answer that has none of its own."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back."""

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_secured)


class Service:
    """Answers requests for predictions, concurrent ones by one call of the model."""

    def __init__(self, model: TableModel, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.columns = [column.name for column in model.schema.inputs]
        self.intake = Intake(limits.max_bytes, MAX_BODIES * limits.max_bytes)
        self.threads = ThreadPoolExecutor(2, "rows")

    @asynccontextmanager
    async def run(self, _: FastAPI) -> AsyncIterator[None]:
        """Work until the server stops, which waits for the requests in flight."""
        self.batcher = Batcher(self.model.predict_converted, self.limits.max_rows)
        self.batcher.start()
        yield
        await self.batcher.stop()
        self.threads.shutdown()

    async def answer(self, request: Request, threshold: float | None) -> Response:
        """Read the rows of a request within the limits, predict them, and write the answer."""
        start = asyncio.get_running_loop().time()
        kind = choose_kind(
            request.headers.get("content-type", ""), request.headers.get("content-encoding", "")
        )
        length = request.headers.get("content-length")
        late = f"Expected the body within {self.limits.seconds:g} s."
        try:
            body = await self._limit(self.intake.read(request.stream(), length), start, 408, late)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        busy = f"No answer within {self.limits.seconds:g} s. Send fewer rows, or try again later."
        try:
            content = await self._limit(self._predict(body, kind, threshold), start, 503, busy)
        except ValueError as error:
            raise RefusedError(422, str(error)) from None
        except RefusedError:
            raise
        except Exception:
            logger.exception("A request failed.")
            raise RefusedError(500, "The model failed on these rows; the server's log says why.") from None
        finally:
            self.intake.release(body)
        return Response(content, media_type=JSON)

    async def _limit(self, work: Awaitable[Any], start: float, status: int, reason: str) -> Any:
        left = start + self.limits.seconds - asyncio.get_running_loop().time()
        try:
            return await asyncio.wait_for(work, max(left, 0.0))
        except asyncio.TimeoutError:
            raise RefusedError(status, reason) from None

    async def _predict(self, body: bytes, kind: str, threshold: float | None) -> bytes:
        loop = asyncio.get_running_loop()
        model = self.model if threshold is None else self.model.with_threshold(threshold)
        # Each request is converted by itself: whether a column is wrong depends on all its values.
        table = await loop.run_in_executor(self.threads, self._convert, body, kind)
        names, p = await self.batcher.predict(table)
        if threshold is not None:
            names = model.decide(p)
        return await loop.run_in_executor(self.threads, format_answer, model, (names, p))

    def _convert(self, body: bytes, kind: str) -> Any:
        try:
            return self.model.schema.convert(parse_body(body, kind, self.columns, self.limits.max_rows))
        except ValueError as error:
            words = str(error).replace("Expected `source`", "Expected `body`")
            raise ValueError(words.replace("Expected `table`", "Expected `rows`")) from None


def format_answer(model: TableModel, predictions: Predictions) -> bytes:
    """The predictions as JSON: for each row the class, and the probability of each class."""
    names, p = predictions
    rows = [
        {"prediction": name, "probabilities": dict(zip(model.labels, row, strict=True))}
        for name, row in zip(names.tolist(), p.tolist(), strict=True)
    ]
    return json.dumps({"predictions": rows, "threshold": model.threshold}).encode()


def describe_model(model: TableModel, limits: Limits, card: str) -> dict[str, Any]:
    """What a client needs to know about a model."""
    facts = model.facts
    return {
        "target": facts["target"],
        "classes": list(model.labels),
        "threshold": model.threshold,
        "metric": facts["metric"],
        "constraints": facts["constraints"],
        "method": facts["method"],
        "columns": [{"name": one.name, "kind": one.kind} for one in model.schema.inputs],
        "limits": {"bytes": limits.max_bytes, "rows": limits.max_rows, "seconds": limits.seconds},
        "card": card,
        "evalign": evalign.__version__,
    }


def _render_card(model: TableModel, folder: Path | None) -> str:
    """The model card, from the report whose checksum is verified; the card in the folder has none."""
    path = None if folder is None else folder / "report.json"
    if path is None or not path.is_file():
        return ""
    rule = getattr(model.classifier, "rule_", None)
    report = Report.from_json(read_file(path, MAX_JSON).decode())
    return render_card(report, None if rule is None else model.threshold)


def _describe_predict(model: TableModel) -> dict[str, Any]:
    """The bodies and answers of `/predict` for OpenAPI."""
    types = {"number": ["number", "string", "null"], "boolean": ["boolean", "string", "null"]}
    columns = {
        one.name: {"type": types.get(one.kind, ["string", "null"]), "description": one.kind}
        for one in model.schema.inputs
    }
    row = {"type": "object", "properties": columns, "required": list(columns)}
    rows = {"type": "array", "items": row, "minItems": 1}
    wrapped = {"type": "object", "properties": {"rows": rows}, "required": ["rows"]}
    prediction = {
        "type": "object",
        "properties": {
            "prediction": {"enum": list(model.labels)},
            "probabilities": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
    answer = {
        "type": "object",
        "properties": {
            "predictions": {"type": "array", "items": prediction},
            "threshold": {"type": ["number", "null"]},
        },
    }
    reason = {"type": "object", "properties": {"detail": {"type": "string"}}}
    bodies = {JSON: {"schema": {"anyOf": [rows, wrapped]}}, CSV: {"schema": {"type": "string"}}}
    words = {
        408: "The body came too slowly.", 413: "Too many bytes or rows.", 415: "Neither JSON nor CSV.",
        422: "A wrong body or threshold, with the reason.", 503: "Too busy, or no answer in time.",
    }  # fmt: skip
    refusals = {
        status: {"description": text, "content": {JSON: {"schema": reason}}} for status, text in words.items()
    }
    return {
        "request": {"requestBody": {"required": True, "content": bodies}},
        "responses": {200: {"description": "One prediction per row.", "content": {JSON: {"schema": answer}}},
                      **refusals},
    }  # fmt: skip
