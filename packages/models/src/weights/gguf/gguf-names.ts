/** The names of a block's tensors, without `blk.N.` and `model.layers.N.`. */
const blockNames: ReadonlyMap<string, string> = new Map([
  ['attn_norm', 'input_layernorm'],
  ['attn_q', 'self_attn.q_proj'],
  ['attn_k', 'self_attn.k_proj'],
  ['attn_v', 'self_attn.v_proj'],
  ['attn_output', 'self_attn.o_proj'],
  ['attn_q_norm', 'self_attn.q_norm'],
  ['attn_k_norm', 'self_attn.k_norm'],
  ['ffn_norm', 'post_attention_layernorm'],
  ['ffn_gate', 'mlp.gate_proj'],
  ['ffn_up', 'mlp.up_proj'],
  ['ffn_down', 'mlp.down_proj'],
]);

/** In Gemma, the norms of results have tensors of their own, and the perceptron's norm another name. */
const gemmaNames: ReadonlyMap<string, string> = new Map([
  ...blockNames,
  ['ffn_norm', 'pre_feedforward_layernorm'],
  ['post_attention_norm', 'post_attention_layernorm'],
  ['post_ffw_norm', 'post_feedforward_layernorm'],
]);

const outerNames: ReadonlyMap<string, string> = new Map([
  ['token_embd.weight', 'model.embed_tokens.weight'],
  ['output_norm.weight', 'model.norm.weight'],
  ['output.weight', 'lm_head.weight'],
]);

/**
 * The name in the model of a tensor of a file, whose architecture has norms of results or not. Undefined for a tensor
 * that no class of this library has.
 */
export function modelName(stored: string, normsResults: boolean): string | undefined {
  const outer = outerNames.get(stored);
  if (outer !== undefined) return outer;
  const [, layer, part = '', kind] = /^blk\.(\d+)\.(\w+)\.(weight|bias)$/.exec(stored) ?? [];
  const name = (normsResults ? gemmaNames : blockNames).get(part);
  return name === undefined ? undefined : `model.layers.${layer}.${name}.${kind}`;
}

/** Whether a tensor has the queries or the keys of a block, whose rows llama.cpp orders differently for Llama. */
export function headsKind(stored: string): 'query' | 'key' | null {
  const [, letter] = /^blk\.\d+\.attn_([qk])\.(?:weight|bias)$/.exec(stored) ?? [];
  if (letter === undefined) return null;
  return letter === 'q' ? 'query' : 'key';
}
