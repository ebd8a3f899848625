import { Gemma2ForCausalLM } from './decoders/gemma2.ts';
import { Gemma3ForCausalLM } from './decoders/gemma3.ts';
import { MistralForCausalLM } from './decoders/mistral.ts';
import { MixtralForCausalLM } from './decoders/mixtral.ts';
import { Qwen2ForCausalLM } from './decoders/qwen2.ts';
import { Qwen3ForCausalLM } from './decoders/qwen3.ts';
import { GPT2LMHeadModel } from './decoders/gpt2.ts';
import { LlamaForCausalLM } from './decoders/llama.ts';
import {
  BertForMaskedLM,
  BertForQuestionAnswering,
  BertForSequenceClassification,
  BertForTokenClassification,
  BertModel,
} from './encoders/bert.ts';
import {
  RobertaForMaskedLM,
  RobertaForQuestionAnswering,
  RobertaForSequenceClassification,
  RobertaForTokenClassification,
  RobertaModel,
} from './encoders/roberta.ts';
import { type Architecture, architecture } from './model/architecture.ts';
import { ResNetForImageClassification, ResNetModel } from './vision/resnet.ts';
import { ViTForImageClassification, ViTModel } from './vision/vit.ts';

/** The classes of this package, for `modelFromConfig`. Add your own to a copy: `[...architectures, architecture(Mine)]`. */
export const architectures: readonly Architecture[] = [
  architecture(GPT2LMHeadModel),
  architecture(LlamaForCausalLM),
  architecture(BertModel),
  architecture(BertForMaskedLM),
  architecture(BertForSequenceClassification),
  architecture(BertForTokenClassification),
  architecture(BertForQuestionAnswering),
  architecture(RobertaModel),
  architecture(RobertaForMaskedLM),
  architecture(RobertaForSequenceClassification),
  architecture(RobertaForTokenClassification),
  architecture(RobertaForQuestionAnswering),
  architecture(ViTModel),
  architecture(ViTForImageClassification),
  architecture(ResNetModel),
  architecture(ResNetForImageClassification),
  architecture(Gemma2ForCausalLM),
  architecture(Gemma3ForCausalLM),
  architecture(MistralForCausalLM),
  architecture(MixtralForCausalLM),
  architecture(Qwen2ForCausalLM),
  architecture(Qwen3ForCausalLM),
];
