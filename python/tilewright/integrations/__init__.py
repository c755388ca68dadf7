"""Doors from inference and training engines to Tilewright's layers of experts.

Each engine has a module. It imports the engine only when one of its functions is called, those of the last two when imported:

| engine | one line |
|---|---|
| transformers | `tilewright.integrations.transformers.register()`, then `experts_implementation="tilewright"` |
| vLLM | `VLLM_PLUGINS=tilewright` or `TILEWRIGHT_ENGINE=1` |
| SGLang | `--moe-runner-backend tilewright` or `TILEWRIGHT_ENGINE=1` |
| torchtitan | `tilewright.integrations.torchtitan` |
| Megatron-LM | `tilewright.integrations.megatron` |

A layer that does not qualify runs in the engine. The engine's log then has one line: the layer, the reason and the code that runs
instead. `TILEWRIGHT_STRICT=1` makes an error of that line. Experts of Megatron-LM raise `Unfit` instead.
"""
