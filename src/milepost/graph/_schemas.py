"""The schemas of a compiled graph, as pydantic models and as JSON schemas."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from milepost._internal.supported import required
from milepost._internal.warn import warn_of
from milepost._schema import is_pydantic, schema_of
from milepost.graph._typed_dicts import described
from milepost.warnings import LangGraphDeprecatedSinceV10

if TYPE_CHECKING:
    from pydantic import BaseModel

    from milepost._engine.superstep.program import ExecutableGraph
    from milepost.types import RunnableConfig


class Schemas:
    """The name of a graph, its channels, and the schemas of its input, output and context."""

    program: ExecutableGraph
    name: str
    context_schema: Any
    builder: Any = None
    """The StateGraph that the graph was compiled from, if it was."""

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """The name of the graph: of its runs, and of a node that it is.

        Args:
            suffix: Added to the name.
            name: Taken in place of the graph's own.
        """
        base = name or self.name
        if not suffix:
            return base
        return base + suffix.title() if base[0].isupper() else f"{base}_{suffix.lower()}"

    # -- channels

    @property
    def input_channels(self) -> str | list[str]:
        """Where the input goes: the name of a channel, or of several."""
        return _listed(self.program.input_channel)

    @property
    def output_channels(self) -> str | list[str]:
        """What `invoke` returns: the value of this channel, or a dict of these."""
        return _listed(self.program.output_keys)

    @property
    def stream_channels(self) -> str | list[str]:
        """What the `values` stream and snapshots show."""
        return _listed(self.program.stream_keys)

    stream_channels_asis = stream_channels

    @property
    def stream_channels_list(self) -> list[str]:
        """`stream_channels`, as a list even of one."""
        shown = self.stream_channels
        return [shown] if isinstance(shown, str) else shown

    # -- types

    @property
    def InputType(self) -> Any:  # noqa: N802
        """The type of the input."""
        return self._type_of(self.program.input_channel, "UpdateType")

    @property
    def OutputType(self) -> Any:  # noqa: N802
        """The type of the output, if the graph returns one value and no mapping."""
        return self._type_of(self.program.output_keys, "ValueType")

    def _type_of(self, channels: str | tuple[str, ...], kind: str) -> Any:
        """What one channel takes, or what it gives; None for several channels."""
        return getattr(self.program.channels[channels], kind) if isinstance(channels, str) else None

    # -- as pydantic models

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:  # noqa: ARG002
        """A pydantic model of the input.

        Args:
            config: No schema depends on it.
        """
        return self._model("Input", self.program.input_channel, "UpdateType")

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:  # noqa: ARG002
        """A pydantic model of the output.

        Args:
            config: No schema depends on it.
        """
        return self._model("Output", self.program.output_keys, "ValueType")

    def _model(self, suffix: str, given: str | tuple[str, ...], kind: str) -> type[BaseModel]:
        """A model of one channel, which is its type if that is a model, or of several."""
        name = self.get_name(suffix)
        if not isinstance(given, str):
            return _create_model(name, {key: (self._type_of(key, kind), None) for key in given})
        model: Any = self._type_of(given, kind)
        return model if is_pydantic(model) else _root_model(name, model)

    @property
    def input_schema(self) -> type[BaseModel]:
        """A pydantic model of the input."""
        return self.get_input_schema()

    @property
    def output_schema(self) -> type[BaseModel]:
        """A pydantic model of the output."""
        return self.get_output_schema()

    def config_schema(self, *, include: Sequence[str] | None = None) -> type[BaseModel]:
        """A pydantic model of the config. Deprecated: use `get_context_jsonschema`.

        Args:
            include: Other keys of a config to have in the model, such as "tags".
        """
        _deprecated("config_schema")
        return self._config_schema(include)

    def _config_schema(self, include: Sequence[str] | None) -> type[BaseModel]:
        from milepost.types import RunnableConfig

        fields: dict[str, tuple[Any, Any]] = {}
        if self.context_schema is not None:
            fields["configurable"] = (self.context_schema, None)
        wanted = [name for name in include or () if name != "configurable"]
        hints = get_type_hints(RunnableConfig) if wanted else {}
        fields.update({name: (hint, None) for name, hint in hints.items() if name in wanted})
        return _create_model(self.get_name("Config"), fields)

    # -- as JSON schemas

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The JSON schema of the input.

        Args:
            config: No schema depends on it.
        """
        if self.builder is not None:
            return self._json_schema(self.builder.input_schema, "Input")
        return self.get_input_schema(config).model_json_schema()

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The JSON schema of the output.

        Args:
            config: No schema depends on it.
        """
        if self.builder is not None:
            return self._json_schema(self.builder.output_schema, "Output")
        return self.get_output_schema(config).model_json_schema()

    def _json_schema(self, schema: Any, suffix: str) -> dict[str, Any]:
        if is_pydantic(schema) or is_typeddict(schema):
            return type_schema(schema)
        channels, read = self.program.channels, schema_of(schema)
        if read.is_root:
            (key,) = read.keys
            model = _root_model(self.get_name(suffix), channels[key].UpdateType, optional=True)
            return model.model_json_schema()
        fields = {
            key: (channels[key].UpdateType, _default(key, channels[key].UpdateType, schema))
            for key in read.keys
        }
        return _create_model(self.get_name(suffix), fields).model_json_schema()

    def get_config_jsonschema(self, *, include: Sequence[str] | None = None) -> dict[str, Any]:
        """The JSON schema of the config. Deprecated: use `get_context_jsonschema`.

        Args:
            include: Other keys of a config to have in the schema, such as "tags".
        """
        _deprecated("get_config_jsonschema")
        return self._config_schema(include).model_json_schema()

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The JSON schema of the context; None for a graph without a context schema."""
        schema = self.context_schema
        if schema is None:
            return None
        if is_pydantic(schema) or is_typeddict(schema) or dataclasses.is_dataclass(schema):
            return type_schema(schema)
        raise ValueError(
            f"The context schema {schema!r} has no JSON schema: make it a pydantic model, a "
            "TypedDict or a dataclass."
        )


def _deprecated(name: str) -> None:
    message = f"`{name}` is deprecated: use get_context_jsonschema"
    warn_of(message, category=LangGraphDeprecatedSinceV10)


def _listed(keys: str | tuple[str, ...]) -> str | list[str]:
    return keys if isinstance(keys, str) else list(keys)


def _default(key: str, typ: Any, schema: Any) -> Any:
    """The default of a field: `...` if it must be given."""
    if dataclasses.is_dataclass(schema):
        for field in dataclasses.fields(schema):
            if field.name == key and field.default is not dataclasses.MISSING:
                return field.default
            if field.name == key and field.default_factory is not dataclasses.MISSING:
                return field.default_factory()
    optional = get_origin(typ) in (Union, UnionType) and NoneType in get_args(typ)
    return None if optional or typ is NoneType else ...


# -- pydantic, if it is installed


def _pydantic() -> Any:
    with required("The schemas of a graph need pydantic: run `pip install pydantic`."):
        import pydantic
    return pydantic


def type_schema(schema: Any) -> dict[str, Any]:
    """The JSON schema of a model, a TypedDict or a dataclass."""
    pydantic = _pydantic()
    found: dict[str, Any] = (
        schema.model_json_schema()
        if is_pydantic(schema)
        else pydantic.TypeAdapter(described(schema)).json_schema()
    )
    if schema.__module__.startswith("milepost.") and (text := found.get("description")):
        found["description"] = text.partition("\n\n")[0]  # without examples for programmers
    return found


def _root_model(name: str, typ: Any, *, optional: bool = False) -> type[BaseModel]:
    pydantic = _pydantic()
    root = pydantic.RootModel

    def model_json_schema(cls: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        schema: dict[str, Any] = super(cls, cls).model_json_schema(*args, **kwargs)
        schema["title"] = name  # and not that of the type
        return schema

    attributes: dict[str, Any] = {
        "__annotations__": {"root": Any if typ is None else described(typ)},
        "__module__": getattr(typ, "__module__", __name__),
        "model_config": pydantic.ConfigDict(arbitrary_types_allowed=True),
        "model_json_schema": classmethod(model_json_schema),
    }
    if optional:
        attributes["root"] = None
    made: type[BaseModel] = type(name, (root,), attributes)
    return made


def _create_model(name: str, fields: Mapping[str, tuple[Any, Any]]) -> type[BaseModel]:
    """A model with these fields, some of which pydantic may want for itself."""
    pydantic = _pydantic()
    reserved = {key for key in dir(pydantic.BaseModel) if not key.startswith("_")}
    safe: dict[str, Any] = {}
    replaced: dict[Any, Any] = {}
    for key, (hint, default) in fields.items():
        typ = described(hint, replaced)
        if key.startswith("_") or key in reserved:
            title = key.lstrip("_").replace("_", " ").title()
            safe[f"private_{key}"] = (typ, pydantic.Field(default=default, alias=key, title=title))
        else:
            safe[key] = (typ, default)
    config = pydantic.ConfigDict(arbitrary_types_allowed=True, frozen=True, protected_namespaces=())
    model: type[BaseModel] = pydantic.create_model(name, __config__=config, **safe)
    return model
