export { architectures } from './architectures.ts';
export { GPT2LMHeadModel, type GPT2Config } from './decoders/gpt2.ts';
export { Gemma2ForCausalLM, type Gemma2Config } from './decoders/gemma2.ts';
export { Gemma3ForCausalLM, type Gemma3Config } from './decoders/gemma3.ts';
export { MistralForCausalLM, type MistralConfig } from './decoders/mistral.ts';
export { MixtralForCausalLM, type MixtralConfig } from './decoders/mixtral.ts';
export { Qwen2ForCausalLM, type Qwen2Config } from './decoders/qwen2.ts';
export { Qwen3ForCausalLM, type Qwen3Config } from './decoders/qwen3.ts';
export { LlamaForCausalLM, type LlamaConfig } from './decoders/llama.ts';
export {
  BertForMaskedLM,
  BertForQuestionAnswering,
  BertForSequenceClassification,
  BertForTokenClassification,
  BertModel,
  type EncoderOptions,
} from './encoders/bert.ts';
export type { LabelConfig, ProblemType } from './encoders/classification.ts';
export type { EncoderCall } from './encoders/encoder-call.ts';
export type { QuestionAnsweringCall } from './encoders/question-answering.ts';
export type { EncoderConfig } from './encoders/encoder-config.ts';
export {
  RobertaForMaskedLM,
  RobertaForQuestionAnswering,
  RobertaForSequenceClassification,
  RobertaForTokenClassification,
  RobertaModel,
} from './encoders/roberta.ts';
export {
  sentenceEmbeddings,
  type SentenceEmbeddingOptions,
} from './encoders/sentence-embeddings.ts';
export { BeamSearch, type BeamSettings, type BeamStep } from './generation/beam-search.ts';
export { generate } from './generation/generate.ts';
export {
  type GeneratingModel,
  modelFacts,
  type ModelFacts,
  type ParallelPretrainedModel,
} from './generation/generating-model.ts';
export { drawToken, mostLikely } from './generation/choose-token.ts';
export {
  type LogitsProcessor,
  logSoftmax,
  processorsOf,
  type ProcessorSettings,
} from './generation/logits-processors.ts';
export type { GenerateOptions, GenerationOptions } from './generation/generation-options.ts';
export { streamTokens } from './generation/stream-tokens.ts';
export { attendTo, type AttendToOptions } from './layers/attention.ts';
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
export type { ImageCall } from './vision/image-model.ts';
export { ResNetForImageClassification, ResNetModel, type ResNetConfig } from './vision/resnet.ts';
export { ViTForImageClassification, ViTModel, type ViTConfig } from './vision/vit.ts';
export {
  fromPretrained,
  type FromPretrainedOptions,
  type ParallelPretrained,
  type ParallelPretrainedOptions,
} from './weights/from-pretrained.ts';
export {
  sequenceClassifier,
  type SequenceClassifierOptions,
} from './weights/sequence-classifier.ts';
export {
  type LoadableModel,
  loadPretrained,
  type LoadPretrainedOptions,
} from './weights/load-pretrained.ts';
export { ggufTokenizer, type GgufTokenizer } from './weights/gguf/gguf-tokenizer.ts';
export type { StackedTensor } from './model/stacked-tensor.ts';
export { CausalDecoder, type CausalDecoderSettings } from './decoders/causal-decoder.ts';
export { exportOnnx, type OnnxOptions } from './onnx/export-onnx.ts';
export type { DynamicAxes, DynamicAxis, NamedAxis } from './onnx/dynamic-axes.ts';
export type { ExportableModule } from './onnx/traces.ts';
export { type AdapterFiles, adapterFiles, type AdapterFilesOptions } from './lora/adapter-files.ts';
export { AdapterStack } from './lora/adapter-stack.ts';
export { addLora } from './lora/add-lora.ts';
export { quantizeModel, type QuantizeOptions } from './lora/quantize-model.ts';
export { loadAdapter } from './lora/load-adapter.ts';
export { stackAdapters } from './lora/stack-adapters.ts';
export type { LoraOptions } from './lora/lora-options.ts';
export { mergeLora, removeLora, unmergeLora } from './lora/merge-lora.ts';
export {
  type DirectoryHandle,
  httpFolder,
  type HttpOptions,
  type ModelFolder,
  pickedFolder,
} from '@shardwise/core/extend';
