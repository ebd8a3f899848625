export { architectures } from './architectures.ts';
export { GPT2LMHeadModel, type GPT2Config } from './decoders/gpt2.ts';
export { Gemma2ForCausalLM, type Gemma2Config } from './decoders/gemma2.ts';
export { Gemma3ForCausalLM, type Gemma3Config } from './decoders/gemma3.ts';
export { MistralForCausalLM, type MistralConfig } from './decoders/mistral.ts';
export { MixtralForCausalLM, type MixtralConfig } from './decoders/mixtral.ts';
export { Qwen2ForCausalLM, type Qwen2Config } from './decoders/qwen2.ts';
export { Qwen3ForCausalLM, type Qwen3Config } from './decoders/qwen3.ts';
export { LlamaForCausalLM, type LlamaConfig } from './decoders/llama.ts';
export { attendTo } from './layers/attention.ts';
export type { RawRopeParameters } from './layers/rope-parameters.ts';
export {
  architecture,
  modelFromConfig,
  type Architecture,
  type BuildOptions,
} from './model/architecture.ts';
export type { ConfigFormat, ConfigReadOptions, PretrainedConfig } from './model/config-format.ts';
export type {
  AttentionCache,
  AttentionSettings,
  CachedAttentionOptions,
  ForwardCall,
} from './model/forward-call.ts';
export {
  PretrainedModel,
  type ModelClass,
  type ModelKind,
  type PretrainedOptions,
} from './model/pretrained-model.ts';
export { StateModule, stateName } from './model/state-module.ts';
export type { StackedTensor } from './model/stacked-tensor.ts';
export { CausalDecoder, type CausalDecoderSettings } from './decoders/causal-decoder.ts';
export { exportOnnx, type OnnxOptions } from './onnx/export-onnx.ts';
export type { DynamicAxes, DynamicAxis, NamedAxis } from './onnx/dynamic-axes.ts';
export type { ExportableModule } from './onnx/traces.ts';
