import type { ParameterSpec } from '@shardwise/core';

/** The sizes of the GPT of `examples/gpt`. */
export interface GptSizes {
  readonly layers: number;
  /** The number of channels. */
  readonly width: number;
  readonly vocabulary: number;
  /** The number of tokens of a row. */
  readonly context: number;
}

/** Returns the parameters of a GPT, with the names that its modules give them. */
export function gptParameters({
  layers,
  width,
  vocabulary,
  context,
}: GptSizes): readonly ParameterSpec[] {
  const spec = (name: string, ...shape: readonly number[]): ParameterSpec => ({
    name,
    shape,
    dtype: 'f32',
    requiresGrad: true,
  });
  const linear = (name: string, output: number, input: number): readonly ParameterSpec[] => [
    spec(`${name}.weight`, output, input),
    spec(`${name}.bias`, output),
  ];
  const norm = (name: string): readonly ParameterSpec[] => [
    spec(`${name}.weight`, width),
    spec(`${name}.bias`, width),
  ];
  return [
    spec('tokens.weight', vocabulary, width),
    spec('positions.weight', context, width),
    ...Array.from({ length: layers }, (_, layer) => [
      ...norm(`blocks.${layer}.norm1`),
      ...linear(`blocks.${layer}.attention.qkv`, 3 * width, width),
      ...linear(`blocks.${layer}.attention.projection`, width, width),
      ...norm(`blocks.${layer}.norm2`),
      ...linear(`blocks.${layer}.up`, 4 * width, width),
      ...linear(`blocks.${layer}.down`, width, 4 * width),
    ]).flat(),
    ...norm('norm'),
    spec('head.weight', vocabulary, width),
  ];
}
