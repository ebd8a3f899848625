import { activationBytes, arange, autocast, nn, zeros, type Tensor } from '@shardwise/core';
import { Parameter } from '@shardwise/core/extend';
import { gptParameters, type GptSizes } from './gpt-parameters.ts';

/** The number of channels of a head. */
const HEAD = 64;

/** The part of a step that a rank computes at once. */
export interface CountedPass extends GptSizes {
  /** The number of rows of a microbatch on one rank. */
  readonly rows: number;
  /** Whether the backward pass recomputes blocks, so that they keep only their inputs and outputs. */
  readonly recomputes: boolean;
  /** Whether the forward pass runs in 16 bits, from parameters of 16 bits. */
  readonly isHalf: boolean;
}

/**
 * Returns the bytes that the backward pass of the GPT of `examples/gpt` reads of its forward pass, as the library
 * counts them in the graph. The parameters have shapes and no values, so that even the largest model takes no memory
 * here.
 */
export function countActivations(pass: CountedPass): number {
  const { rows, context, isHalf } = pass;
  const ids = zeros([rows, context], 'i32');
  const forward = shapedGpt(pass);
  // Strategies run a model in mixed precision in the same way. Its results are f32.
  const logits = isHalf ? autocast({ dtype: 'bf16' }, () => forward(ids)).to('f32') : forward(ids);
  return activationBytes(nn.functional.crossEntropy(logits.flatten(0, 1), ids.flatten()));
}

/** Returns the forward pass of a GPT whose parameters have no values. Shape: ids i32 [B, T] -> logits [B, T, V]. */
function shapedGpt(pass: CountedPass): (ids: Tensor) => Tensor {
  const dtype = pass.isHalf ? 'bf16' : 'f32';
  const parameters = new Map(
    gptParameters(pass).map(({ name, shape }) => [
      name,
      new Parameter(null, shape, { dtype }).requiresGrad_(),
    ]),
  );
  const named = (name: string): Parameter => {
    const found = parameters.get(name);
    if (found === undefined) throw new RangeError(`a GPT has no ${name}`);
    return found;
  };
  const linear = (x: Tensor, name: string): Tensor =>
    nn.functional.linear(x, named(`${name}.weight`), named(`${name}.bias`));
  const norm = (x: Tensor, name: string): Tensor =>
    x.layerNorm(named(`${name}.weight`), named(`${name}.bias`), 1e-5);

  const attention = (x: Tensor, name: string): Tensor => {
    const [B = 0, T = 0, width = 0] = x.shape;
    const H = width / HEAD;
    const heads = linear(x, `${name}.qkv`)
      .reshape([B, T, 3 * H, HEAD])
      .transpose(1, 2);
    const [query, key, value] = heads.split(H, 1);
    if (query === undefined || key === undefined || value === undefined) {
      throw new RangeError('a product has three parts');
    }
    const attended = nn.functional.scaledDotProductAttention(query, key, value, { causal: true });
    return linear(attended.transpose(1, 2).flatten(2), `${name}.projection`);
  };
  const block = (x: Tensor, name: string): Tensor => {
    const attended = x.add(attention(norm(x, `${name}.norm1`), `${name}.attention`));
    const hidden = linear(norm(attended, `${name}.norm2`), `${name}.up`).gelu();
    return attended.add(linear(hidden, `${name}.down`));
  };

  return (ids) => {
    const [, T = 0] = ids.shape;
    const positions = nn.functional.embedding(arange(T), named('positions.weight'));
    let x = nn.functional.embedding(ids, named('tokens.weight')).add(positions);
    for (let layer = 0; layer < pass.layers; layer += 1) {
      const [input, name] = [x, `blocks.${layer}`];
      x = pass.recomputes ? nn.checkpoint(() => block(input, name)) : block(input, name);
    }
    return nn.functional.linear(norm(x, 'norm'), named('head.weight'));
  };
}
