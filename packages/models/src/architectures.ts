import { GPT2LMHeadModel } from './decoders/gpt2.ts';
import { LlamaForCausalLM } from './decoders/llama.ts';
import { type Architecture, architecture } from './model/architecture.ts';

/** The classes of this package, for `modelFromConfig`. Add your own to a copy: `[...architectures, architecture(Mine)]`. */
export const architectures: readonly Architecture[] = [
  architecture(GPT2LMHeadModel),
  architecture(LlamaForCausalLM),
];
