"""The protocol's side of the tools: on standard input and output, for one assistant."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from tabletopic_kernel.faces.mcp.child import Child
from tabletopic_kernel.faces.mcp.tools import TOOLS
from tabletopic_kernel.model.errors import TableTopicError
from tabletopic_kernel.model.settings.sections import Settings

_INSTRUCTIONS = (
    "Kafka topics that are Iceberg tables. topics and status say which; schema, peek and query read them. "
    "Nothing here changes anything: name the command that a person may run."
)


def server_of(child: Child) -> Server[Any]:
    """The server of all tools."""

    async def list_tools(*_: Any) -> types.ListToolsResult:
        reads = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
        tools = [
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.model.model_json_schema(),
                annotations=reads,
            )
            for tool in TOOLS.values()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            text = await anyio.to_thread.run_sync(child.call, params.name, params.arguments or {})
        except TableTopicError as error:
            return types.CallToolResult(content=[types.TextContent(text=str(error))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(text=text)])

    return Server(
        "tabletopic",
        version=version("tabletopic"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve(settings: Settings) -> None:
    """Serve until standard input ends."""
    child = Child(settings)

    async def run() -> None:
        server = server_of(child)
        async with stdio_server() as (requests, answers):
            await server.run(requests, answers, server.create_initialization_options())

    try:
        anyio.run(run)
    finally:
        child.close()
